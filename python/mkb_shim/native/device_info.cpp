// Reads the flat JSON object of numbers and strings that describes the device.
#include "device_info.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace mkb {
namespace {

[[noreturn]] void die(const std::string& path, const char* what) {
  std::fprintf(stderr, "mkb: device description %s: %s\n", path.c_str(), what);
  std::abort();
}

// The top-level members of a JSON object whose values are numbers or plain strings; values of other
// kinds are passed over by bracket depth.
class Flat {
 public:
  Flat(const std::string& path, const std::string& text) : path_(path), text_(text) {
    expect('{');
    if (peek() == '}') return;
    while (true) {
      std::string key = string();
      expect(':');
      char first = peek();
      if (first == '"') {
        values_[key] = string();
      } else if (first == '{' || first == '[') {
        skip();
      } else {
        size_t start = at_;
        while (at_ < text_.size() && std::string(",}] \t\r\n").find(text_[at_]) == std::string::npos)
          ++at_;
        values_[key] = text_.substr(start, at_ - start);
      }
      if (peek() != ',') break;
      ++at_;
    }
    expect('}');
  }

  void get(const char* key, std::string& out) const {
    auto found = values_.find(key);
    if (found != values_.end()) out = found->second;
  }

  void get(const char* key, int64_t& out) const {
    auto found = values_.find(key);
    if (found == values_.end()) return;
    char* end = nullptr;
    double value = std::strtod(found->second.c_str(), &end);
    if (end == found->second.c_str() || *end != '\0' || !(value >= 0 && value < 9e15))
      die(path_, (std::string(key) + " is not a number in range").c_str());
    out = static_cast<int64_t>(value);
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::string(" \t\r\n").find(text_[at_]) != std::string::npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char wanted) {
    if (peek() != wanted) die(path_, "not a JSON object");
    ++at_;
  }
  std::string string() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
      if (at_ < text_.size()) out += text_[at_++];
    }
    if (at_ >= text_.size()) die(path_, "a string does not end");
    ++at_;
    return out;
  }
  void skip() {
    int depth = 0;
    do {
      char c = peek();
      if (c == '\0') die(path_, "a value does not end");
      if (c == '"') {
        string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    } while (depth > 0);
  }

  const std::string& path_;
  const std::string& text_;
  size_t at_ = 0;
  std::map<std::string, std::string> values_;
};

DeviceInfo read() {
  DeviceInfo info;
  const char* path = std::getenv("MKB_DEVICE_INFO");
  if (path == nullptr || *path == '\0') return info;
  std::ifstream file(path);
  if (!file) die(path, "cannot be read (MKB_DEVICE_INFO names it)");
  std::stringstream all;
  all << file.rdbuf();
  std::string name = path, text = all.str();
  Flat flat(name, text);
  flat.get("name", info.name);
  flat.get("major", info.major);
  flat.get("minor", info.minor);
  flat.get("sm_count", info.sm_count);
  flat.get("total_memory", info.total_memory);
  flat.get("shared_per_block", info.shared_per_block);
  flat.get("shared_per_block_optin", info.shared_per_block_optin);
  flat.get("shared_per_sm", info.shared_per_sm);
  flat.get("shared_reserved_per_block", info.shared_reserved_per_block);
  flat.get("registers_per_block", info.registers_per_block);
  flat.get("registers_per_sm", info.registers_per_sm);
  flat.get("threads_per_block", info.threads_per_block);
  flat.get("threads_per_sm", info.threads_per_sm);
  flat.get("blocks_per_sm", info.blocks_per_sm);
  flat.get("warp_size", info.warp_size);
  flat.get("l2_bytes", info.l2_bytes);
  flat.get("clock_khz", info.clock_khz);
  flat.get("memory_clock_khz", info.memory_clock_khz);
  flat.get("memory_bus_bits", info.memory_bus_bits);
  return info;
}

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo* info = new DeviceInfo(read());
  return *info;
}

}  // namespace mkb
