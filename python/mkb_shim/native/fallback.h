// Operations on tensors that say `cuda`: run by torch's CPU kernels on the same memory, and recorded.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <string>
#include <unordered_map>

namespace mkb {

// Takes over dispatch key CUDA. Called once; a second call does nothing.
void install_fallback();

// True for the name ("aten::add.Tensor") of an operation that the fallback runs and records; the
// player runs no other.
bool is_recorded(const std::string& name);

// Operations that have CUDA kernels and no CPU kernel: their body on CPU tensors, by name.
using Body = void (*)(torch::jit::Stack& stack);
const std::unordered_map<std::string, Body>& special_bodies();

// While one lives, memory that torch's CPU allocator hands out on this thread is the arena's.
class ArenaScope {
 public:
  explicit ArenaScope(bool poison = false);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  bool outer_poison_;
};

}  // namespace mkb
