// Plays a tape: runs its operations and launches again on this process's memory.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "reader.h"

namespace mkb {

class Player {
 public:
  static Player& get();

  enum class Stop { kFinished, kBegin, kEnd, kModule };
  struct Halt {
    Stop why;
    uint64_t next;        // where to go on
    uint64_t body;        // the entry at which it stopped
    uint64_t body_size;
  };

  // Plays entries of `tape` from `at` to the next BEGIN, END or MODULE, which are the caller's, or
  // to the end. Throws TapeError, DeviceError, or what an operation throws.
  Halt play(std::string_view tape, uint64_t at);

  // The caller's memory stands for the recorded allocation `serial` from now on; it must outlive
  // `forget`.
  void bind(uint64_t serial, void* address, uint64_t size);
  void forget(uint64_t serial);
  void bind_module(uint64_t recorded, uint64_t here) { modules_[recorded] = here; }
  // Where a recorded allocation stands here; false if there is none.
  bool resolve(uint64_t serial, uint64_t* address, uint64_t* size) const;

  // Remembers what the tape made so far, with its content; goes back to that, as often as wanted.
  void remember();
  void go_back();

 private:
  friend class Decoder;
  void operation(Reader& entry);
  void settle(Reader& entry, const c10::IValue& result, const std::string& name);
  void launch(Reader& entry);
  const c10::Storage& storage(uint64_t serial) const;

  struct Remembered {
    c10::Storage storage;
    std::string bytes;
  };

  std::unordered_map<uint64_t, c10::Storage> memory_;
  std::unordered_map<uint64_t, Remembered> remembered_;
  std::unordered_map<uint64_t, uint64_t> modules_;
};

}  // namespace mkb
