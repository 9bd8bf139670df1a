// A kernel launch as the program asks for it: recorded, then sent to the device.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "device.h"

namespace mkb {

// An argument: `bytes`, in which the device addresses stand at `pointers` (position, address).
struct Argument {
  std::string bytes;
  std::vector<std::pair<uint32_t, uint64_t>> pointers;
};

struct Request {
  uint64_t module = 0;  // as `load` numbered it
  std::string dsl;
  Launch shape;  // without arguments
  std::vector<Argument> arguments;
};

// Records a module (in `tape_format`) and loads its device form; the number stands for it from now.
uint64_t load(uint8_t tape_format, std::string_view tape_source, uint8_t device_format,
              std::string_view device_source, std::vector<Kernel>* kernels);

// Records and runs a launch, and returns what the kernel printed. Throws DeviceError.
std::string launch(const Request& request);

}  // namespace mkb
