// The tape: how operations, launches and their operands are written down. docs/tape.md is the
// format's page; keep the two together.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace mkb {

enum class Entry : uint8_t {
  kAlloc = 1,
  kFree = 2,
  kOp = 3,
  kRead = 4,
  kSync = 5,
  kModule = 6,
  kLaunch = 7,
  kBegin = 8,
  kEnd = 9,
};

enum class Tag : uint8_t {
  kNone = 0,
  kTensor = 1,
  kHostTensor = 2,
  kUndefined = 3,
  kInt = 4,
  kDouble = 5,
  kBool = 6,
  kString = 7,
  kComplex = 8,
  kList = 9,
  kDevice = 10,
  kGenerator = 11,
  kSameAsArgument = 12,
  kDict = 13,
  kTuple = 14,
  kOther = 15,
  kHostResult = 16,
};

// Flags of a tensor descriptor.
enum Flag : uint8_t {
  kWritten = 1,
  kConjugate = 2,
  kNegative = 4,
  kBorn = 8,
  kWrappedNumber = 16,
};

// Bytes under construction: one entry's body.
class Buffer {
 public:
  void clear() { bytes_.clear(); }
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void tag(Tag value) { u8(static_cast<uint8_t>(value)); }
  void varint(uint64_t value) {
    while (value >= 0x80) {
      u8(static_cast<uint8_t>(value) | 0x80);
      value >>= 7;
    }
    u8(static_cast<uint8_t>(value));
  }
  void zigzag(int64_t value) {
    varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void fixed64(uint64_t value) { raw(&value, sizeof value); }
  void f64(double value) { raw(&value, sizeof value); }
  void raw(const void* data, size_t size) {
    if (size != 0) bytes_.append(static_cast<const char*>(data), size);
  }
  void bytes(std::string_view text) {
    varint(text.size());
    raw(text.data(), text.size());
  }
  std::string_view view() const { return bytes_; }

 private:
  std::string bytes_;
};

// The growing file. One per process; every method may be called from any thread.
class Tape {
 public:
  static Tape& get();

  // Starts to record to `fd` (at its end; the file begins with the magic if it was empty).
  // Returns false where the file cannot be written.
  bool open(int fd);
  bool on() const { return fd_ >= 0; }
  // The file could not be written, or is longer than `kLongest`: what is played would not be all.
  bool broken() const { return broken_; }

  void append(Entry kind, std::string_view body);

  // Writes what is buffered to the file and returns the tape's length; -1 if writing failed.
  int64_t flush();

  // Where a device address stands: the allocation's serial and the offset in it. `serial` is 0 for
  // an address in no allocation. Announces the allocation with an ALLOC entry if `announce`.
  struct Place {
    uint64_t serial = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  Place locate(const void* address, bool announce);

  // True the first time that a result stands in allocation `serial`.
  bool first_sight(uint64_t serial);

  void freed(uint64_t serial);

 private:
  void append_locked(Entry kind, std::string_view body);
  bool drain_locked();

  std::mutex mutex_;
  int fd_ = -1;
  std::atomic<bool> broken_{false};
  uint64_t end_ = 0;  // length of the file with what is buffered
  std::string buffered_;
  std::unordered_set<uint64_t> announced_;
};

// Longest tape of a process: data from the host is on it, and it lives in memory.
inline constexpr uint64_t kLongest = 2ull << 30;

inline constexpr char kTapeMagic[8] = {'M', 'K', 'B', 'T', 'A', 'P', 'E', 1};

}  // namespace mkb
