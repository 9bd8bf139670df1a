// Modules and launches: written on the tape first, so that a failed launch stands there too.
#include "launch.h"

#include <mutex>

#include "tape.h"

namespace mkb {
namespace {

struct Loaded {
  std::mutex mutex;
  std::vector<uint64_t> handles;
};
Loaded& loaded() {
  static Loaded* all = new Loaded();
  return *all;
}

void record(const Request& request) {
  Tape& tape = Tape::get();
  if (!tape.on()) return;
  Buffer entry;
  entry.varint(request.module);
  entry.bytes(request.shape.kernel);
  entry.bytes(request.dsl);
  for (const uint32_t* dims : {request.shape.grid, request.shape.block, request.shape.cluster})
    for (int i = 0; i < 3; ++i) entry.varint(dims[i]);
  entry.varint(request.shape.dynamic_shared_bytes);
  entry.varint(request.arguments.size());
  for (const Argument& argument : request.arguments) {
    entry.bytes(argument.bytes);
    entry.varint(argument.pointers.size());
    for (auto [position, address] : argument.pointers) {
      Tape::Place place = tape.locate(reinterpret_cast<const void*>(address), true);
      entry.varint(position);
      entry.varint(place.serial);
      entry.varint(place.serial == 0 ? 0 : place.offset);
    }
  }
  tape.append(Entry::kLaunch, entry.view());
}

}  // namespace

uint64_t load(uint8_t tape_format, std::string_view tape_source, uint8_t device_format,
              std::string_view device_source, std::vector<Kernel>* kernels) {
  Module module = Device::get().load(device_format, device_source);
  *kernels = module.kernels;
  uint64_t number;
  {
    Loaded& all = loaded();
    std::lock_guard<std::mutex> lock(all.mutex);
    number = all.handles.size();
    all.handles.push_back(module.handle);
  }
  Buffer entry;
  entry.varint(number);
  entry.u8(tape_format);
  entry.bytes(tape_source);
  Tape::get().append(Entry::kModule, entry.view());
  return number;
}

std::string launch(const Request& request) {
  uint64_t handle;
  {
    Loaded& all = loaded();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (request.module >= all.handles.size())
      throw DeviceError(DeviceError::kBadRequest, "no such module");
    handle = all.handles[request.module];
  }
  record(request);
  Launch shape = request.shape;
  for (const Argument& argument : request.arguments) {
    std::string bytes = argument.bytes;
    for (auto [position, address] : argument.pointers) {
      if (bytes.size() < 8 || position > bytes.size() - 8)
        throw DeviceError(DeviceError::kBadRequest, "a pointer does not fit its argument");
      bytes.replace(position, 8, reinterpret_cast<const char*>(&address), 8);
    }
    shape.arguments.push_back(std::move(bytes));
  }
  return Device::get().launch(handle, shape);
}

}  // namespace mkb
