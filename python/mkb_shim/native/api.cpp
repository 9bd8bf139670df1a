// What Python calls (ctypes): plain C functions over the tape, the device and the player.
//
// A function that can fail returns a Status; `mkb_text` then has the message, else its result.
#include <string>

#include "arena.h"
#include "fallback.h"
#include "launch.h"
#include "player.h"
#include "reader.h"
#include "tape.h"

namespace {

enum Status : int {
  kOk = 0,
  kFault = 1,
  kIncomplete = 2,
  kBadRequest = 3,
  kLost = 4,
  kTape = 5,
  kException = 6,
};

thread_local std::string text;

template <class Work>
int guarded(Work work) {
  try {
    text.clear();
    work();
    return kOk;
  } catch (const mkb::DeviceError& error) {
    text = error.what();
    return error.kind;
  } catch (const mkb::TapeError& error) {
    text = error.what();
    return kTape;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
    return kException;
  } catch (const std::exception& error) {
    text = error.what();
    return kException;
  }
}

}  // namespace

extern "C" {

// The last result or message of this thread; valid until its next call.
const char* mkb_text(size_t* size) {
  *size = text.size();
  return text.data();
}

int mkb_install(void) {
  return guarded([] { mkb::install_fallback(); });
}

// ---- memory ----
void mkb_memory_trim(void) { mkb_arena_trim(); }
void mkb_memory_poison_new(int yes) { mkb_arena_poison_new(yes); }

// ---- tape ----
int mkb_tape_open(int fd) { return mkb::Tape::get().open(fd) ? 0 : -1; }
int mkb_tape_on(void) { return mkb::Tape::get().on() ? 1 : 0; }
int64_t mkb_tape_flush(void) { return mkb::Tape::get().flush(); }
void mkb_tape_append(int kind, const char* body, size_t size) {
  mkb::Tape::get().append(static_cast<mkb::Entry>(kind), {body, size});
}
// The allocation that holds `address`: its serial (0: none), the offset in it, its size. With
// `announce`, it is written to the tape if it is not there. Returns 1 if it was new to the tape and
// `announce` is 0: the caller then writes it as born.
int mkb_tape_locate(uint64_t address, int announce, uint64_t* serial, uint64_t* offset,
                    uint64_t* size) {
  mkb::Tape& tape = mkb::Tape::get();
  auto place = tape.locate(reinterpret_cast<const void*>(address), announce != 0);
  *serial = place.serial;
  *offset = place.offset;
  *size = place.size;
  return announce == 0 && place.serial != 0 && tape.first_sight(place.serial) ? 1 : 0;
}

// ---- device ----
void mkb_device_connect(int fd) { mkb::Device::get().connect(fd); }

// On success `mkb_text` has, for each kernel, its name, a NUL, its number of parameters as a byte
// and that many bytes of sizes (255 parameters at most).
int mkb_module_load(int tape_format, const char* tape_source, size_t tape_size, int device_format,
                    const char* device_source, size_t device_size, uint64_t* number) {
  return guarded([&] {
    std::vector<mkb::Kernel> kernels;
    *number = mkb::load(static_cast<uint8_t>(tape_format), {tape_source, tape_size},
                        static_cast<uint8_t>(device_format), {device_source, device_size}, &kernels);
    for (const mkb::Kernel& kernel : kernels) {
      if (kernel.parameter_sizes.size() > 255)
        throw mkb::DeviceError(mkb::DeviceError::kBadRequest, "a kernel has over 255 parameters");
      text += kernel.name;
      text.push_back('\0');
      text.push_back(static_cast<char>(kernel.parameter_sizes.size()));
      for (uint8_t size : kernel.parameter_sizes) text.push_back(static_cast<char>(size));
    }
  });
}

// `arguments`: for each, varint size, bytes, varint count, and for each pointer in it varint
// position and u64 address. `dims` has nine: grid, block, cluster.
int mkb_launch(uint64_t module, const char* kernel, const char* dsl, const uint32_t* dims,
               uint32_t dynamic_shared_bytes, const char* arguments, size_t size) {
  return guarded([&] {
    mkb::Request request;
    request.module = module;
    request.dsl = dsl;
    request.shape.kernel = kernel;
    for (int i = 0; i < 3; ++i) {
      request.shape.grid[i] = dims[i];
      request.shape.block[i] = dims[3 + i];
      request.shape.cluster[i] = dims[6 + i];
    }
    request.shape.dynamic_shared_bytes = dynamic_shared_bytes;
    mkb::Reader in({arguments, size});
    while (!in.empty()) {
      mkb::Argument argument;
      argument.bytes = in.bytes();
      uint64_t count = in.varint();
      for (uint64_t i = 0; i < count; ++i) {
        auto position = static_cast<uint32_t>(in.varint());
        argument.pointers.emplace_back(position, in.fixed<uint64_t>());
      }
      request.arguments.push_back(std::move(argument));
    }
    text = mkb::launch(request);
  });
}

// ---- player ----
// `*why`: 0 finished, 1 at a BEGIN, 2 at an END, 3 at a MODULE, whose body `*body` and `*body_size`
// give; `*at` is where to go on.
int mkb_play(const char* tape, uint64_t size, uint64_t* at, int* why, uint64_t* body,
             uint64_t* body_size) {
  return guarded([&] {
    auto halt = mkb::Player::get().play({tape, size}, *at);
    *why = static_cast<int>(halt.why);
    *at = halt.next;
    *body = halt.body;
    *body_size = halt.body_size;
  });
}
void mkb_play_bind(uint64_t serial, uint64_t address, uint64_t size) {
  mkb::Player::get().bind(serial, reinterpret_cast<void*>(address), size);
}
void mkb_play_forget(uint64_t serial) { mkb::Player::get().forget(serial); }
void mkb_play_remember(void) { mkb::Player::get().remember(); }
void mkb_play_go_back(void) { mkb::Player::get().go_back(); }
void mkb_play_bind_module(uint64_t recorded, uint64_t here) {
  mkb::Player::get().bind_module(recorded, here);
}
int mkb_play_resolve(uint64_t serial, uint64_t* address, uint64_t* size) {
  return mkb::Player::get().resolve(serial, address, size) ? 1 : 0;
}
}
