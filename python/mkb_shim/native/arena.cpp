// The arena's allocator: best fit over a coalescing free list, bump beyond the highest block.
#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t kAlign = 512;
constexpr uint64_t kGap = 512;
constexpr uint64_t kDefaultSize = 64ull << 30;
// A freed block above this is not poisoned: the next one who asks for memory with poison gets it so.
constexpr uint64_t kPoisonFreed = 64ull << 20;
// Freed blocks above that size stay in memory up to this sum; the rest goes back to the system.
constexpr uint64_t kKeepResident = 4ull << 30;
// What trimming leaves: the next draw of a small workload finds its pages there, and a page taken anew
// costs more than most operations do on it.
constexpr uint64_t kKeepTrimmed = 768ull << 20;
// Smaller free blocks are not worth a system call when memory is trimmed.
constexpr uint64_t kWorthTrimming = 1ull << 20;
constexpr uint64_t kPage = 4096;
constexpr int kPoison = 0xFF;

struct Block {
  uint64_t size;    // as asked for
  uint64_t extent;  // with padding and gap
  uint64_t serial;
  bool reported;    // the device knows of it
};

class Arena {
 public:
  // Never destroyed: tensors may outlive static destructors.
  static Arena& get() {
    static Arena* arena = new Arena();
    return *arena;
  }

  void* alloc(size_t size, bool poison) {
    if (size == 0) return nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    if (size > total_ - kAlign - kGap) return nullptr;
    uint64_t extent = round_up(size, kAlign) + kGap;
    uint64_t address = take(extent);
    if (address == 0) return nullptr;
    live_.emplace(address, Block{size, extent, ++last_serial_, false});
    note_fresh(address);
    allocated_ += size;
    if (allocated_ > peak_) peak_ = allocated_;
    if (poison && poison_new_) std::memset(reinterpret_cast<void*>(address), kPoison, size);
    return reinterpret_cast<void*>(address);
  }

  int free(void* pointer, bool poison) {
    if (pointer == nullptr) return 0;
    uint64_t address = reinterpret_cast<uint64_t>(pointer);
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = live_.find(address);
    if (found == live_.end()) return -1;
    Block block = found->second;
    live_.erase(found);
    allocated_ -= block.size;
    if (block.reported) gone_.emplace_back(address, block.size);
    wipe(address, block.size, poison && poison_new_);
    give_back(address, block.extent);
    auto hook = free_hook_;
    // The hook takes locks of its own, whose holders may ask us for an allocation.
    lock.unlock();
    if (hook != nullptr) hook(block.serial);
    return 0;
  }

  bool find(const void* pointer, mkb_allocation* out) {
    uint64_t address = reinterpret_cast<uint64_t>(pointer);
    std::lock_guard<std::mutex> lock(mutex_);
    auto next = live_.upper_bound(address);
    if (next == live_.begin()) return false;
    auto& [base, block] = *std::prev(next);
    if (address - base >= block.size) return false;
    if (out != nullptr) *out = mkb_allocation{block.serial, base, block.size};
    return true;
  }

  void drain(void (*visit)(void*, int, uint64_t, uint64_t), void* context) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [address, size] : gone_) visit(context, 1, address, size);
    gone_.clear();
    for (uint64_t address : fresh_) {
      auto found = live_.find(address);
      if (found == live_.end() || found->second.reported) continue;
      found->second.reported = true;
      visit(context, 0, address, found->second.size);
    }
    fresh_.clear();
  }

  void usage(uint64_t* total, uint64_t* allocated, uint64_t* peak) {
    std::lock_guard<std::mutex> lock(mutex_);
    *total = total_;
    *allocated = allocated_;
    *peak = peak_;
  }

  void trim() {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t unused = highest_ - bump_;
    for (auto& [address, extent] : by_address_) unused += extent;
    if (unused <= kKeepTrimmed) {
      idle_ = unused;
      return;
    }
    for (auto& [address, extent] : by_address_)
      if (extent >= kWorthTrimming) give_to_system(address, extent);
    if (highest_ - bump_ >= kWorthTrimming) give_to_system(bump_, highest_ - bump_);
    highest_ = bump_;
    idle_ = 0;
  }

  void poison_new(bool yes) {
    std::lock_guard<std::mutex> lock(mutex_);
    poison_new_ = yes;
  }

  int fd() const { return fd_; }
  void on_free(void (*hook)(uint64_t)) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_hook_ = hook;
  }

 private:
  Arena() {
    const char* given = std::getenv("MKB_ARENA_FD");
    if (given != nullptr && *given != '\0') {
      fd_ = std::atoi(given);
    } else {
      fd_ = memfd_create("mkb-arena", MFD_CLOEXEC);
      if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(kDefaultSize)) != 0)
        die("cannot make an arena");
    }
    struct stat about;
    if (fstat(fd_, &about) != 0) die("the arena's file descriptor (MKB_ARENA_FD) is not open");
    total_ = static_cast<uint64_t>(about.st_size) / kPage * kPage;
    if (total_ < (1u << 20)) die("the arena is smaller than 1 MiB");
    void* at = mmap(reinterpret_cast<void*>(kArenaBase), total_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd_, 0);
    if (at != reinterpret_cast<void*>(kArenaBase)) die("cannot map the arena at its address");
    madvise(at, total_, MADV_DONTDUMP);
    // The first block does not start at the very base, so that the base is nobody's address.
    highest_ = bump_ = kArenaBase + kAlign;
  }

  [[noreturn]] static void die(const char* what) {
    std::fprintf(stderr, "mkb: %s: %s\n", what, std::strerror(errno));
    std::abort();
  }

  static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

  uint64_t take(uint64_t extent) {
    auto fit = by_size_.lower_bound({extent, 0});
    if (fit != by_size_.end()) {
      auto [have, address] = *fit;
      by_size_.erase(fit);
      by_address_.erase(address);
      if (have > extent) insert(address + extent, have - extent);
      idle_ -= std::min(idle_, extent);
      return address;
    }
    if (extent > kArenaBase + total_ - bump_) return 0;
    uint64_t address = bump_;
    // Freed blocks at the end went back into what lies above `bump_`.
    if (address < highest_) idle_ -= std::min(idle_, extent);
    bump_ += extent;
    highest_ = std::max(highest_, bump_);
    return address;
  }

  // Keeps the list of what the device has not heard of short where no device ever asks.
  void note_fresh(uint64_t address) {
    if (fresh_.size() > 2 * live_.size() + 1024) {
      std::set<uint64_t> still;
      for (uint64_t candidate : fresh_) {
        auto found = live_.find(candidate);
        if (found != live_.end() && !found->second.reported) still.insert(candidate);
      }
      fresh_.assign(still.begin(), still.end());
    }
    fresh_.push_back(address);
  }

  void give_back(uint64_t address, uint64_t extent) {
    auto after = by_address_.lower_bound(address);
    if (after != by_address_.end() && address + extent == after->first) {
      extent += after->second;
      by_size_.erase({after->second, after->first});
      after = by_address_.erase(after);
    }
    if (after != by_address_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == address) {
        address = before->first;
        extent += before->second;
        by_size_.erase({before->second, before->first});
        by_address_.erase(before);
      }
    }
    if (address + extent == bump_) {
      bump_ = address;
    } else {
      insert(address, extent);
    }
  }

  void insert(uint64_t address, uint64_t extent) {
    by_address_.emplace(address, extent);
    by_size_.emplace(extent, address);
  }

  void wipe(uint64_t address, uint64_t size, bool poison) {
    if (size <= kPoisonFreed) {
      if (poison) std::memset(reinterpret_cast<void*>(address), kPoison, size);
    } else if (idle_ + size <= kKeepResident) {
      idle_ += size;
    } else {
      give_to_system(address, size);
    }
  }

  // The whole pages of a stretch that nobody uses; they read as zeros from now on.
  void give_to_system(uint64_t address, uint64_t size) {
    uint64_t from = round_up(address, kPage), to = (address + size) / kPage * kPage;
    if (from < to)
      (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(from - kArenaBase), static_cast<off_t>(to - from));
  }

  std::mutex mutex_;
  int fd_ = -1;
  uint64_t total_ = 0, bump_ = 0, allocated_ = 0, peak_ = 0, last_serial_ = 0;
  uint64_t highest_ = 0;    // end of what was ever in use since the last trim
  uint64_t idle_ = 0;       // about how much memory large free blocks hold
  bool poison_new_ = true;
  std::map<uint64_t, Block> live_;
  std::map<uint64_t, uint64_t> by_address_;            // free: address -> extent
  std::set<std::pair<uint64_t, uint64_t>> by_size_;    // free: (extent, address)
  std::vector<uint64_t> fresh_;                        // allocated since the last drain
  std::vector<std::pair<uint64_t, uint64_t>> gone_;    // reported blocks freed since then
  void (*free_hook_)(uint64_t) = nullptr;
};

}  // namespace

extern "C" {

void* mkb_arena_alloc(size_t size, int poison) { return Arena::get().alloc(size, poison != 0); }
int mkb_arena_free(void* address) { return Arena::get().free(address, true); }
int mkb_arena_free_scratch(void* address) { return Arena::get().free(address, false); }
int mkb_arena_find(const void* address, mkb_allocation* found) {
  return Arena::get().find(address, found) ? 1 : 0;
}
void mkb_arena_usage(uint64_t* total, uint64_t* allocated, uint64_t* peak) {
  Arena::get().usage(total, allocated, peak);
}
void mkb_arena_trim(void) { Arena::get().trim(); }
void mkb_arena_poison_new(int yes) { Arena::get().poison_new(yes != 0); }
int mkb_arena_fd(void) { return Arena::get().fd(); }
void mkb_arena_on_free(void (*hook)(uint64_t serial)) { Arena::get().on_free(hook); }
void mkb_arena_drain(void (*visit)(void*, int, uint64_t, uint64_t), void* context) {
  Arena::get().drain(visit, context);
}
}
