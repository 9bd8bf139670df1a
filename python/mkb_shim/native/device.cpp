// Frames to and from the virtual GPU: `u32 length of the rest, u8 kind, body`, little-endian.
#include "device.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "arena.h"

namespace mkb {
namespace {

constexpr uint8_t kModule = 1, kLaunch = 2, kModuleReply = 129, kLaunchReply = 130, kFailure = 255;
constexpr uint32_t kLongestReply = 256u << 20;

void put32(std::string& out, uint32_t value) { out.append(reinterpret_cast<char*>(&value), 4); }
void put64(std::string& out, uint64_t value) { out.append(reinterpret_cast<char*>(&value), 8); }
void put_text(std::string& out, std::string_view text) {
  put32(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

[[noreturn]] void lost(const char* what) {
  throw DeviceError(DeviceError::kLost, std::string("the virtual GPU is gone: ") + what);
}

// A reply being read; what it lacks is a lost connection, for the device never sends it so.
class Reply {
 public:
  explicit Reply(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(size_t size) {
    if (size > bytes_.size()) lost("its reply is too short");
    std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint32_t>())); }

 private:
  std::string_view bytes_;
};

void send_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) lost(std::strerror(errno));
    data += n;
    size -= static_cast<size_t>(n);
  }
}

void receive_all(int fd, char* data, size_t size) {
  while (size > 0) {
    ssize_t n = recv(fd, data, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) lost("it closed the connection");
    if (n < 0) lost(std::strerror(errno));
    data += n;
    size -= static_cast<size_t>(n);
  }
}

std::mutex& one_at_a_time() {
  static std::mutex* mutex = new std::mutex();
  return *mutex;
}

struct Events {
  uint32_t count = 0;
  std::string bytes;
};

void add_event(void* context, int kind, uint64_t address, uint64_t size) {
  auto* events = static_cast<Events*>(context);
  ++events->count;
  events->bytes.push_back(static_cast<char>(kind));
  put64(events->bytes, address);
  put64(events->bytes, size);
}

}  // namespace

Device& Device::get() {
  static Device* device = new Device();
  return *device;
}

std::string Device::ask(uint8_t kind, std::string_view body, uint8_t wanted) {
  if (fd_ < 0)
    throw DeviceError(DeviceError::kBadRequest, "this worker has no virtual GPU (no --device-fd)");
  if (body.size() >= UINT32_MAX)
    throw DeviceError(DeviceError::kBadRequest, "the request is longer than 4 GiB");
  std::string head;
  put32(head, static_cast<uint32_t>(body.size() + 1));
  head.push_back(static_cast<char>(kind));
  send_all(fd_, head.data(), head.size());
  send_all(fd_, body.data(), body.size());
  uint32_t length;
  receive_all(fd_, reinterpret_cast<char*>(&length), 4);
  if (length == 0 || length > kLongestReply) lost("its reply has no sensible length");
  std::string reply(length, '\0');
  receive_all(fd_, reply.data(), length);
  uint8_t got = static_cast<uint8_t>(reply[0]);
  if (got == kFailure) {
    Reply read(std::string_view(reply).substr(1));
    uint8_t failure = read.number<uint8_t>();
    std::string message = read.text();
    throw DeviceError(failure == 1   ? DeviceError::kFault
                      : failure == 2 ? DeviceError::kIncomplete
                                     : DeviceError::kBadRequest,
                      message);
  }
  if (got != wanted) lost("its reply is of another kind than the request");
  return reply.substr(1);
}

Module Device::load(uint8_t format, std::string_view source) {
  std::lock_guard<std::mutex> lock(one_at_a_time());
  std::string body(1, static_cast<char>(format));
  put_text(body, source);
  std::string bytes = ask(kModule, body, kModuleReply);
  Reply reply(bytes);
  Module module;
  module.handle = reply.number<uint64_t>();
  uint32_t count = reply.number<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    Kernel kernel;
    kernel.name = reply.text();
    uint32_t parameters = reply.number<uint32_t>();
    for (uint32_t j = 0; j < parameters; ++j)
      kernel.parameter_sizes.push_back(reply.number<uint8_t>());
    module.kernels.push_back(std::move(kernel));
  }
  return module;
}

std::string Device::launch(uint64_t handle, const Launch& launch) {
  std::lock_guard<std::mutex> lock(one_at_a_time());
  Events events;
  mkb_arena_drain(&add_event, &events);
  std::string body;
  put32(body, events.count);
  body += events.bytes;
  put64(body, handle);
  put_text(body, launch.kernel);
  for (const uint32_t* dims : {launch.grid, launch.block, launch.cluster})
    for (int i = 0; i < 3; ++i) put32(body, dims[i]);
  put32(body, launch.dynamic_shared_bytes);
  put32(body, static_cast<uint32_t>(launch.arguments.size()));
  for (const std::string& argument : launch.arguments) {
    if (argument.size() > 255)
      throw DeviceError(DeviceError::kBadRequest, "a kernel argument is longer than 255 bytes");
    body.push_back(static_cast<char>(argument.size()));
    body += argument;
  }
  std::string bytes = ask(kLaunch, body, kLaunchReply);
  return Reply(bytes).text();
}

}  // namespace mkb
