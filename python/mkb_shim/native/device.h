// The virtual GPU's end of a socket: modules and launches, one request at a time.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mkb {

// The device's answer was a failure, or the connection broke (`kClass` kLost).
class DeviceError : public std::runtime_error {
 public:
  enum Class : uint8_t { kFault = 1, kIncomplete = 2, kBadRequest = 3, kLost = 4 };
  DeviceError(Class kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  const Class kind;
};

struct Kernel {
  std::string name;
  std::vector<uint8_t> parameter_sizes;
};

struct Module {
  uint64_t handle = 0;
  std::vector<Kernel> kernels;
};

struct Launch {
  std::string kernel;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::string> arguments;  // the bytes of each
};

class Device {
 public:
  static Device& get();
  void connect(int fd) { fd_ = fd; }
  bool connected() const { return fd_ >= 0; }

  // Throw DeviceError. `format`: 0 IR text, 1 TIRx device JSON.
  Module load(uint8_t format, std::string_view source);
  std::string launch(uint64_t handle, const Launch& launch);

 private:
  std::string ask(uint8_t kind, std::string_view body, uint8_t wanted);
  int fd_ = -1;
};

}  // namespace mkb
