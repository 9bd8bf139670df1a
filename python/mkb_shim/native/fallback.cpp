// Operations on tensors that say `cuda`: run by torch's CPU kernels on the same memory, and recorded.
//
// torch's CUDA kernels are machine code, so each is replaced by one boxed function: it lends the
// operands to the CPU kernel as CPU tensors over the same bytes, and gives the results back as CUDA
// tensors. Views keep torch's own kernels: they touch no memory.
#include "fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <set>

#include "arena.h"
#include "encode.h"

namespace mkb {
namespace {

using torch::jit::Stack;

const at::Device kCuda(at::kCUDA, 0);

// ---- memory of results ----

thread_local int arena_depth = 0;
thread_local bool poison_new = false;

void release(void* pointer) {
  if (reinterpret_cast<uint64_t>(pointer) < kArenaBase) {
    c10::free_cpu(pointer);
  } else if (mkb_arena_find(pointer, nullptr) == 0) {
    c10::free_cpu(pointer);  // the system may map host memory above the arena
  } else if (arena_depth > 0) {
    mkb_arena_free_scratch(pointer);
  } else {
    mkb_arena_free(pointer);
  }
}

struct HostOrArena final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* data = nullptr;
    if (size != 0) {
      data = arena_depth > 0 ? mkb_arena_alloc(size, poison_new ? 1 : 0) : c10::alloc_cpu(size);
      TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "out of device memory: ", size,
                       " bytes asked for");
    }
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};

// ---- one call ----

struct Lent {
  at::Tensor device;  // the operand as the caller has it
  at::Tensor host;    // the same bytes for the CPU kernel
  const void* data;   // its storage's memory before the call
  size_t bytes;
  bool written;
};

// The operands of one call, lent to the CPU, and the way back.
class Loan {
 public:
  // Host operands go to the kernel as they are, and come back so.
  at::Tensor lend(const at::Tensor& device, bool written) {
    if (!device.defined()) return device;
    if (!device.is_cuda()) {
      if (device.has_storage()) own_.push_back(device.storage().unsafeGetStorageImpl());
      return device;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(device.layout() == at::kStrided && device.has_storage(),
                                "the virtual GPU holds strided tensors, not ", device.layout(), " ones");
    const c10::Storage& storage = device.storage();
    c10::Storage lent = host_storage(storage);
    at::Tensor host = over(std::move(lent), device, c10::DispatchKey::CPU);
    lent_.push_back({device, host, storage.data(), storage.nbytes(), written});
    return host;
  }

  // The caller's tensor for one that the kernel returned: the operand itself, a view of an
  // operand's memory, or new memory that becomes the device's.
  at::Tensor give_back(const at::Tensor& host) {
    if (!host.defined() || !host.device().is_cpu()) return host;
    for (const Lent& one : lent_)
      if (one.host.is_same(host)) return one.device;
    TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == at::kStrided, "the virtual GPU has no ",
                                host.layout(), " tensors");
    c10::StorageImpl* storage = host.storage().unsafeGetStorageImpl();
    for (const c10::StorageImpl* own : own_)
      if (own == storage) return host;
    for (const auto& [theirs, ours] : storages_)
      if (ours.unsafeGetStorageImpl() == storage)
        return over(theirs, host, c10::DispatchKey::CUDA);
    c10::Storage device = adopt(host.storage());
    storages_.emplace_back(device, host.storage());
    return over(device, host, c10::DispatchKey::CUDA);
  }

  // Brings what the kernel did to the shape or memory of written operands to the caller's tensors.
  void settle() {
    for (Lent& one : lent_) {
      if (!one.written) continue;
      c10::StorageImpl* host = one.host.storage().unsafeGetStorageImpl();
      c10::StorageImpl* device = one.device.storage().unsafeGetStorageImpl();
      if (host->data() != device->data()) {
        c10::DataPtr memory = to_device(host->set_data_ptr(c10::DataPtr()), host->nbytes());
        // The kernel may go on to look at its own tensor's address.
        host->set_data_ptr_noswap(c10::DataPtr(memory.get(), c10::Device(c10::kCPU)));
        // The old memory lives until the call is on the tape: it is an operand there.
        replaced_.push_back(device->set_data_ptr(std::move(memory)));
      }
      if (host->nbytes() != device->nbytes()) device->set_nbytes(host->nbytes());
      if (one.host.sizes() != one.device.sizes() || one.host.strides() != one.device.strides() ||
          one.host.storage_offset() != one.device.storage_offset()) {
        c10::TensorImpl* impl = one.device.unsafeGetTensorImpl();
        impl->set_sizes_and_strides(one.host.sizes(), one.host.strides(), one.host.storage_offset());
      }
    }
  }

  // Whether `device` is an operand that the call left where and as it was.
  bool unchanged_operand(const at::Tensor& device) const {
    for (const Lent& one : lent_)
      if (one.device.is_same(device))
        return one.data == device.storage().data() && one.bytes == device.storage().nbytes();
    return false;
  }

 private:
  static at::Tensor over(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), like.dtype());
    c10::TensorImpl* impl = made.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.is_conj()) made._set_conj(true);
    if (like.is_neg()) made._set_neg(true);
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return made;
  }

  c10::Storage host_storage(const c10::Storage& device) {
    for (const auto& [theirs, ours] : storages_)
      if (theirs.unsafeGetStorageImpl() == device.unsafeGetStorageImpl()) return ours;
    void* data = const_cast<void*>(device.data());
    c10::Storage host(c10::Storage::use_byte_size_t(), device.nbytes(),
                      c10::DataPtr(data, c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
                      device.resizable());
    storages_.emplace_back(device, host);
    return host;
  }

  static c10::DataPtr to_device(c10::DataPtr host, size_t bytes) {
    void* data = host.get();
    if (data == nullptr) return {nullptr, kCuda};
    mkb_allocation found;
    if (mkb_arena_find(data, &found) == 1) {
      void* context = host.get_context();
      c10::DeleterFnPtr deleter = host.get_deleter();
      host.release_context();
      return {data, context, deleter, kCuda};
    }
    // Memory that did not come from the allocator (a constant, another library's): copied.
    void* copy = mkb_arena_alloc(bytes, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, copy != nullptr || bytes == 0, "out of device memory");
    if (bytes != 0) std::memcpy(copy, data, bytes);
    return {copy, copy, &release, kCuda};
  }

  static c10::Storage adopt(const c10::Storage& host) {
    c10::StorageImpl* impl = host.unsafeGetStorageImpl();
    size_t bytes = impl->nbytes();
    c10::DataPtr memory = to_device(impl->set_data_ptr(c10::DataPtr()), bytes);
    return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory),
                        c10::GetAllocator(c10::kCUDA), true);
  }

  c10::SmallVector<Lent, 6> lent_;
  c10::SmallVector<const c10::StorageImpl*, 4> own_;  // host operands' memory
  std::vector<c10::DataPtr> replaced_;
  c10::SmallVector<std::pair<c10::Storage, c10::Storage>, 6> storages_;  // (device, host)
};

// ---- random numbers ----

// The state of a CUDA generator is a seed and an offset. Each operation draws from a CPU generator
// that both determine, and moves the offset on.
struct Draw {
  uint64_t seed = 0;
  uint64_t offset = 0;
  uint64_t mixed() const {
    uint64_t z = seed + 0x9E3779B97F4A7C15ull * (offset + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
};

Draw next_draw(at::Generator generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  Draw draw{generator.current_seed(), generator.get_offset()};
  generator.set_offset(draw.offset + 4);
  return draw;
}

// Operations without a generator argument draw from the CPU's default one: seeded for one call.
class DefaultGenerator {
 public:
  explicit DefaultGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~DefaultGenerator() {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(before_);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor before_;
};

// ---- the boxed function ----

const c10::DispatchKeySet kAbove =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

class Fallback final : public c10::OperatorKernel {
 public:
  explicit Fallback(const c10::OperatorHandle& op) : name_(at::toString(op.operator_name())) {
    const c10::FunctionSchema& schema = op.schema();
    for (const c10::Argument& argument : schema.arguments()) {
      bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      written_.push_back(writes);
      any_written_ |= writes;
      if (argument.name() == "generator") generator_ = static_cast<int>(written_.size()) - 1;
    }
    random_ = generator_ >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
    std::string base = schema.name();
    poison_ = base == "aten::resize_" || base == "aten::resize_as_";
    is_copy_ = name_ == "aten::copy_";
    is_item_ = name_ == "aten::_local_scalar_dense";
    auto special = special_bodies().find(name_);
    if (special != special_bodies().end()) body_ = special->second;
    runs_ = body_ != nullptr || op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    TORCH_CHECK_NOT_IMPLEMENTED(runs_, "the virtual GPU does not model the operation ", name_,
                                ": torch has no CPU kernel for it");
    const size_t n_arguments = written_.size();
    const size_t n_results = op.schema().returns().size();
    const size_t first = stack->size() - n_arguments;
    Tape& tape = Tape::get();
    bool record = tape.on();
    TORCH_CHECK(!tape.broken(), "the tape of this process is full (2 GiB) or cannot be written: too ",
                "much data from the host was put on the device");
    Buffer entry;
    bool reads_back = is_item_ || (is_copy_ && (*stack)[first].toTensor().device().is_cpu());
    if (record && reads_back) {
      encode_tensor(entry, (*stack)[is_item_ ? first : first + 1].toTensor(), false);
      tape.append(Entry::kRead, entry.view());
      record = false;
    }

    Draw draw;
    if (random_) {
      bool given = generator_ >= 0 && !(*stack)[first + generator_].isNone();
      draw = next_draw(given ? (*stack)[first + generator_].toGenerator()
                             : at::globalContext().defaultGenerator(kCuda));
    }
    if (record) {
      entry.bytes(name_);
      entry.u8(random_ ? 1 : 0);
      if (random_) {
        entry.fixed64(draw.seed);
        entry.fixed64(draw.offset);
      }
      entry.varint(n_arguments);
      for (size_t i = 0; i < n_arguments; ++i)
        encode_value(entry, (*stack)[first + i], written_[i]);
    }

    Stack given;
    if (record && n_results > 0) given.assign(stack->begin() + static_cast<long>(first), stack->end());
    Loan loan;
    for (size_t i = 0; i < n_arguments; ++i) lend((*stack)[first + i], written_[i], loan);
    if (generator_ >= 0)
      (*stack)[first + generator_] = at::detail::createCPUGenerator(draw.mixed());
    {
      ArenaScope memory(poison_);
      c10::impl::ExcludeDispatchKeyGuard below(kAbove);
      if (random_ && generator_ < 0) {
        DefaultGenerator seeded(draw.mixed());
        run(op, stack);
      } else {
        run(op, stack);
      }
    }
    if (any_written_) loan.settle();
    const size_t results = stack->size() - n_results;
    for (size_t i = 0; i < n_results; ++i) give_back((*stack)[results + i], loan);
    if (record) {
      entry.varint(n_results);
      for (size_t i = 0; i < n_results; ++i)
        encode_returned(entry, (*stack)[results + i], given, loan);
      tape.append(Entry::kOp, entry.view());
    }
  }

 private:
  void run(const c10::OperatorHandle& op, Stack* stack) const {
    if (body_ != nullptr) {
      body_(*stack);
    } else {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
  }

  static void lend(c10::IValue& value, bool written, Loan& loan) {
    if (value.isTensor()) {
      value = loan.lend(value.toTensor(), written);
    } else if (value.isDevice()) {
      if (value.toDevice().is_cuda()) value = at::Device(at::kCPU);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> lent;
      for (const at::Tensor& tensor : value.toTensorVector())
        lent.push_back(loan.lend(tensor, written));
      value = std::move(lent);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> lent;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        lent.push_back(tensor.has_value() ? std::optional(loan.lend(*tensor, written)) : tensor);
      value = std::move(lent);
    }
  }

  static void give_back(c10::IValue& value, Loan& loan) {
    if (value.isTensor()) {
      value = loan.give_back(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> given;
      for (const at::Tensor& tensor : value.toTensorVector()) given.push_back(loan.give_back(tensor));
      value = std::move(given);
    }
  }

  static void encode_returned(Buffer& entry, const c10::IValue& value, const Stack& given,
                              const Loan& loan) {
    if (value.isTensorList()) {
      auto items = value.toListRef();
      entry.tag(Tag::kList);
      entry.varint(items.size());
      for (const c10::IValue& item : items) encode_returned(entry, item, given, loan);
      return;
    }
    if (!value.isTensor()) {
      encode_value(entry, value, false);
      return;
    }
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && loan.unchanged_operand(tensor)) {
      for (size_t i = 0; i < given.size(); ++i) {
        if (given[i].isTensor() && given[i].toTensor().is_same(tensor)) {
          entry.tag(Tag::kSameAsArgument);
          entry.varint(i);
          return;
        }
      }
    }
    encode_result(entry, tensor);
  }

  std::string name_;
  c10::SmallVector<bool, 8> written_;
  bool any_written_ = false;
  int generator_ = -1;
  bool random_ = false;
  bool poison_ = false;
  bool is_copy_ = false;
  bool is_item_ = false;
  Body body_ = nullptr;
  bool runs_ = false;
};

// ---- which operations ----

// Names whose torch kernels stay: they make or relabel tensors and touch no memory.
const std::set<std::string>& kept() {
  static const std::set<std::string> names = {
      "aten::empty.memory_format", "aten::empty_strided",    "aten::record_stream",
      "aten::set_",                "aten::set_.source_Storage",
      "aten::set_.source_Tensor",  "aten::set_.source_Storage_storage_offset",
      "aten::is_set_to",           "aten::_fused_sdp_choice", "aten::_efficientzerotensor",
      "aten::_new_zeros_with_same_feature_meta",
  };
  return names;
}

// Operations without a kernel for CUDA alone whose shared kernel would start machine code.
const std::vector<std::string>& taken_besides() {
  static const std::vector<std::string> names = {"aten::copy_", "aten::convolution",
                                                 "aten::convolution_backward"};
  return names;
}

bool is_view(const c10::FunctionSchema& schema) {
  bool aliases = false;
  for (const c10::Argument& argument : schema.arguments())
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return false;
  for (const c10::Argument& result : schema.returns()) aliases |= result.alias_info() != nullptr;
  return aliases;
}

std::set<std::string>& recorded_names() {
  static std::set<std::string>* names = new std::set<std::string>();
  return *names;
}

struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void on_free(uint64_t serial) { Tape::get().freed(serial); }
void on_synchronize() { Tape::get().append(Entry::kSync, {}); }

}  // namespace

ArenaScope::ArenaScope(bool poison) : outer_poison_(poison_new) {
  ++arena_depth;
  poison_new = poison;
}
ArenaScope::~ArenaScope() {
  --arena_depth;
  poison_new = outer_poison_;
}

bool is_recorded(const std::string& name) { return recorded_names().count(name) == 1; }

void install_fallback() {
  static bool done = false;
  if (done) return;
  done = true;
  static HostOrArena allocator;
  c10::SetAllocator(c10::kCPU, &allocator, 255);
  mkb_arena_on_free(&on_free);
  mkb_on_synchronize(&on_synchronize);
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  // The library holds the registrations: it lives as long as the process.
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA,
                                            __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  auto take = [&](const c10::OperatorHandle& op) {
    std::string name = at::toString(op.operator_name());
    if (!recorded_names().insert(name).second) return;
    library->impl(name.c_str() + sizeof("aten::") - 1,
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Fallback>(op)));
  };
  for (const c10::OperatorName& name :
       dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA)) {
    auto op = dispatcher.findSchema(name);
    if (!op.has_value() || name.name.rfind("aten::", 0) != 0) continue;
    if (kept().count(at::toString(name)) == 1 || is_view(op->schema())) continue;
    take(*op);
  }
  for (const std::string& name : taken_besides()) {
    auto op = dispatcher.findSchema({name, ""});
    TORCH_CHECK(op.has_value(), "this torch has no operation ", name);
    take(*op);
  }
}

}  // namespace mkb
