// The tape's file: entries are buffered and appended in order.
#include "tape.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "arena.h"

namespace mkb {
namespace {
constexpr size_t kBuffer = 1 << 20;

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(static_cast<uint8_t>(value) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}
}  // namespace

Tape& Tape::get() {
  static Tape* tape = new Tape();
  return *tape;
}

bool Tape::open(int fd) {
  std::lock_guard<std::mutex> lock(mutex_);
  struct stat about;
  if (fstat(fd, &about) != 0) return false;
  fd_ = fd;
  broken_ = false;
  end_ = static_cast<uint64_t>(about.st_size);
  buffered_.clear();
  announced_.clear();
  if (end_ == 0) {
    buffered_.assign(kTapeMagic, sizeof kTapeMagic);
    end_ = sizeof kTapeMagic;
  }
  return drain_locked();
}

void Tape::append(Entry kind, std::string_view body) {
  std::lock_guard<std::mutex> lock(mutex_);
  append_locked(kind, body);
}

void Tape::append_locked(Entry kind, std::string_view body) {
  if (fd_ < 0 || broken_) return;
  if (end_ + body.size() > kLongest) {
    broken_ = true;
    return;
  }
  size_t before = buffered_.size();
  buffered_.push_back(static_cast<char>(kind));
  put_varint(buffered_, body.size());
  buffered_.append(body);
  end_ += buffered_.size() - before;
  if (buffered_.size() >= kBuffer) drain_locked();
}

bool Tape::drain_locked() {
  uint64_t at = end_ - buffered_.size();
  const char* data = buffered_.data();
  size_t left = buffered_.size();
  while (left > 0 && !broken_) {
    ssize_t n = pwrite(fd_, data, left, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      broken_ = true;
      break;
    }
    at += static_cast<uint64_t>(n);
    data += n;
    left -= static_cast<size_t>(n);
  }
  buffered_.clear();
  return !broken_;
}

int64_t Tape::flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ < 0) return 0;
  return drain_locked() ? static_cast<int64_t>(end_) : -1;
}

Tape::Place Tape::locate(const void* address, bool announce) {
  mkb_allocation found;
  if (address == nullptr || mkb_arena_find(address, &found) == 0) return {};
  Place place{found.serial, reinterpret_cast<uint64_t>(address) - found.address, found.size};
  if (announce && fd_ >= 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (announced_.insert(found.serial).second) {
      std::string body;
      put_varint(body, found.serial);
      put_varint(body, found.size);
      append_locked(Entry::kAlloc, body);
    }
  }
  return place;
}

bool Tape::first_sight(uint64_t serial) {
  std::lock_guard<std::mutex> lock(mutex_);
  return announced_.insert(serial).second;
}

void Tape::freed(uint64_t serial) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ < 0 || announced_.erase(serial) == 0) return;
  std::string body;
  put_varint(body, serial);
  append_locked(Entry::kFree, body);
}

}  // namespace mkb
