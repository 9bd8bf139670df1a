// Bytes of a tape that nobody vouches for, read with every bound checked.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace mkb {

// The tape is not what the format says. The message names the place.
class TapeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return at_ == bytes_.size(); }
  size_t position() const { return at_; }

  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) throw TapeError("an entry ends too early");
    std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  uint8_t u8() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = u8();
      uint64_t part = byte & 0x7F;
      if (shift == 63 && part > 1) throw TapeError("a number is too long");
      value |= part << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw TapeError("a number is too long");
  }
  int64_t zigzag() {
    uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  // A count of things that each take at least one byte here.
  uint64_t count() {
    uint64_t value = varint();
    if (value > bytes_.size() - at_) throw TapeError("a count is larger than its entry");
    return value;
  }
  std::string_view bytes() { return take(varint()); }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace mkb
