// What the virtual device says about itself, from the JSON file named in MKB_DEVICE_INFO.
#pragma once
#include <cstdint>
#include <string>

namespace mkb {

// Defaults: a B200, from NVIDIA's public CUDA C++ Programming Guide (compute capability tables)
// and the product's data sheet.
struct DeviceInfo {
  std::string name = "NVIDIA B200";
  int64_t major = 10;
  int64_t minor = 0;
  int64_t sm_count = 148;
  int64_t total_memory = 192ll * 1000 * 1000 * 1000;
  int64_t shared_per_block = 48 * 1024;
  int64_t shared_per_block_optin = 227 * 1024;
  int64_t shared_per_sm = 228 * 1024;
  int64_t shared_reserved_per_block = 1024;
  int64_t registers_per_block = 65536;
  int64_t registers_per_sm = 65536;
  int64_t threads_per_block = 1024;
  int64_t threads_per_sm = 2048;
  int64_t blocks_per_sm = 32;
  int64_t warp_size = 32;
  int64_t l2_bytes = 126ll << 20;
  int64_t clock_khz = 1965000;
  int64_t memory_clock_khz = 3996000;
  int64_t memory_bus_bits = 8192;
};

// Read once. A file that is missing or has a wrong value ends the process with a message.
const DeviceInfo& device_info();

}  // namespace mkb
