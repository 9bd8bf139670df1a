// Plays a tape: runs its operations and launches again on this process's memory.
//
// The bytes may be anything. What is not as docs/tape.md says is refused before it has an effect:
// only operations that the recorder records, arguments of the kinds that their schemas name,
// tensors that lie within memory that the tape made or the caller lent.
#include "player.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "arena.h"
#include "encode.h"
#include "fallback.h"
#include "launch.h"

namespace mkb {
namespace {

const at::Device kCuda(at::kCUDA, 0);
constexpr uint64_t kMostDimensions = 64;

void free_memory(void* pointer) { mkb_arena_free(pointer); }

c10::Storage over(void* address, uint64_t size, bool owned) {
  c10::DataPtr data = owned ? c10::DataPtr(address, address, &free_memory, kCuda)
                            : c10::DataPtr(address, kCuda);
  return c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(data),
                      c10::GetAllocator(c10::kCUDA), owned);
}

std::string_view tag_name(Tag tag) {
  static constexpr std::string_view names[] = {
      "none",  "tensor",    "host tensor", "undefined", "int",  "float", "bool",  "string", "complex",
      "list",  "device",    "generator",   "same",      "dict", "tuple", "other", "host result"};
  auto index = static_cast<size_t>(tag);
  return index < std::size(names) ? names[index] : "unknown";
}

struct Shape {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  uint64_t elements;
};

Shape read_shape(Reader& in) {
  uint8_t code = in.u8();
  auto dtype = static_cast<at::ScalarType>(code);
  bool known = code < static_cast<uint8_t>(at::ScalarType::NumOptions) &&
               dtype != at::ScalarType::Undefined && !at::isQIntType(dtype);
  if (!known) throw TapeError("a tensor's type is none that the virtual GPU holds");
  uint64_t dimensions = in.varint();
  if (dimensions > kMostDimensions) throw TapeError("a tensor has more than 64 dimensions");
  Shape shape{dtype, {}, 1};
  bool empty = false;
  for (uint64_t i = 0; i < dimensions; ++i) {
    uint64_t size = in.varint();
    if (size > INT64_MAX) throw TapeError("a tensor's size is out of range");
    empty |= size == 0;
    shape.sizes.push_back(static_cast<int64_t>(size));
    if (size != 0 && __builtin_mul_overflow(shape.elements, size, &shape.elements))
      throw TapeError("a tensor has too many elements");
  }
  if (shape.elements > (uint64_t{1} << 48)) throw TapeError("a tensor has too many elements");
  if (empty) shape.elements = 0;
  return shape;
}

struct Descriptor {
  uint8_t flags;
  Shape shape;
  std::vector<int64_t> strides;
  uint64_t serial;
  uint64_t offset;
};

Descriptor read_descriptor(Reader& in) {
  Descriptor one;
  one.flags = in.u8();
  one.shape = read_shape(in);
  for (size_t i = 0; i < one.shape.sizes.size(); ++i) {
    uint64_t stride = in.varint();
    if (stride > INT64_MAX) throw TapeError("a tensor's stride is out of range");
    one.strides.push_back(static_cast<int64_t>(stride));
  }
  one.serial = in.varint();
  one.offset = in.varint();
  if ((one.flags & kBorn) != 0) in.varint();
  return one;
}

// Refuses a tensor that does not lie in `size` bytes.
void check_within(const Descriptor& one, uint64_t size) {
  uint64_t item = c10::elementSize(one.shape.dtype);
  if (one.offset % item != 0) throw TapeError("a tensor is not aligned to its type");
  unsigned __int128 end = one.offset;
  if (one.shape.elements != 0) {
    end += item;
    for (size_t i = 0; i < one.strides.size(); ++i)
      end += static_cast<unsigned __int128>(one.shape.sizes[i] - 1) *
             static_cast<uint64_t>(one.strides[i]) * item;
  }
  if (end > size) throw TapeError("a tensor reaches past its memory");
}

}  // namespace

// Reads values of an operation as its schema wants them.
class Decoder {
 public:
  explicit Decoder(Player& player) : player_(player) {}

  c10::IValue read(Reader& in, const c10::Type& type) {
    Tag tag = static_cast<Tag>(in.u8());
    if (auto* optional = type.castRaw<c10::OptionalType>()) {
      if (tag == Tag::kNone) return {};
      return read(in, tag, *optional->getElementType());
    }
    return read(in, tag, type);
  }

  at::Tensor device_tensor(Reader& in) {
    Descriptor one = read_descriptor(in);
    c10::Storage storage = one.serial == 0 ? over(nullptr, 0, true) : player_.storage(one.serial);
    check_within(one, storage.nbytes());
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
        c10::scalarTypeToTypeMeta(one.shape.dtype));
    made.unsafeGetTensorImpl()->set_sizes_and_strides(
        one.shape.sizes, one.strides,
        static_cast<int64_t>(one.offset / c10::elementSize(one.shape.dtype)));
    bool complex = c10::isComplexType(one.shape.dtype);
    if ((one.flags & kConjugate) != 0 && complex) made._set_conj(true);
    if ((one.flags & kNegative) != 0) made._set_neg(true);
    return made;
  }

 private:
  [[noreturn]] static void mismatch(Tag tag, const c10::Type& type) {
    throw TapeError("an argument is of kind " + std::string(tag_name(tag)) + " where " + type.str() +
                    " is wanted");
  }

  c10::IValue read(Reader& in, Tag tag, const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType:
        return tensor(in, tag, type);
      case c10::TypeKind::NumberType:
        return number(in, tag, type);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
      // Types of dtype, layout and memory format are integers to the dispatcher.
      case c10::TypeKind::ScalarTypeType:
      case c10::TypeKind::LayoutType:
      case c10::TypeKind::MemoryFormatType:
        if (tag != Tag::kInt) mismatch(tag, type);
        return in.zigzag();
      case c10::TypeKind::FloatType:
        if (tag == Tag::kInt) return static_cast<double>(in.zigzag());
        if (tag != Tag::kDouble) mismatch(tag, type);
        return in.fixed<double>();
      case c10::TypeKind::BoolType:
        if (tag != Tag::kBool) mismatch(tag, type);
        return in.u8() != 0;
      case c10::TypeKind::StringType:
        if (tag != Tag::kString) mismatch(tag, type);
        return std::string(in.bytes());
      case c10::TypeKind::DeviceObjType: {
        if (tag != Tag::kDevice) mismatch(tag, type);
        std::string_view name = in.bytes();
        if (name == "cpu") return at::Device(at::kCPU);
        if (name != "cuda" && name != "cuda:0") throw TapeError("a device is not the virtual GPU");
        return kCuda;
      }
      case c10::TypeKind::GeneratorType:
        if (tag != Tag::kGenerator) mismatch(tag, type);
        return at::globalContext().defaultGenerator(kCuda);
      case c10::TypeKind::ListType:
        return list(in, tag, *type.castRaw<c10::ListType>()->getElementType(), type);
      default:
        mismatch(tag, type);
    }
  }

  c10::IValue number(Reader& in, Tag tag, const c10::Type& type) {
    switch (tag) {
      case Tag::kInt: return in.zigzag();
      case Tag::kDouble: return in.fixed<double>();
      case Tag::kBool: return in.u8() != 0;
      case Tag::kComplex: {
        double real = in.fixed<double>();
        return c10::complex<double>(real, in.fixed<double>());
      }
      default: mismatch(tag, type);
    }
  }

  at::Tensor tensor(Reader& in, Tag tag, const c10::Type& type) {
    switch (tag) {
      case Tag::kTensor: return device_tensor(in);
      case Tag::kUndefined: return {};
      case Tag::kHostTensor: {
        uint8_t flags = in.u8();
        Shape shape = read_shape(in);
        std::string_view data = in.bytes();
        if (data.size() != shape.elements * c10::elementSize(shape.dtype))
          throw TapeError("a host tensor's data has another size than its shape");
        at::Tensor made = at::empty(shape.sizes, at::TensorOptions().dtype(shape.dtype));
        if (!data.empty()) std::memcpy(made.mutable_data_ptr(), data.data(), data.size());
        if ((flags & kWrappedNumber) != 0 && shape.sizes.empty())
          made.unsafeGetTensorImpl()->set_wrapped_number(true);
        return made;
      }
      case Tag::kHostResult: {
        Shape shape = read_shape(in);
        uint64_t total, allocated, peak;
        mkb_arena_usage(&total, &allocated, &peak);
        if (shape.elements * c10::elementSize(shape.dtype) > total)
          throw TapeError("a host tensor is larger than the device");
        return at::empty(shape.sizes, at::TensorOptions().dtype(shape.dtype));
      }
      default: mismatch(tag, type);
    }
  }

  template <class T>
  c10::List<T> items(Reader& in, const c10::Type& element) {
    c10::List<T> made;
    uint64_t count = in.count();
    for (uint64_t i = 0; i < count; ++i) made.push_back(read(in, element).to<T>());
    return made;
  }

  c10::IValue list(Reader& in, Tag tag, const c10::Type& element, const c10::Type& type) {
    if (tag != Tag::kList) mismatch(tag, type);
    switch (element.kind()) {
      case c10::TypeKind::TensorType: return items<at::Tensor>(in, element);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType: return items<int64_t>(in, element);
      case c10::TypeKind::FloatType: return items<double>(in, element);
      case c10::TypeKind::BoolType: return items<bool>(in, element);
      case c10::TypeKind::StringType: return items<std::string>(in, element);
      case c10::TypeKind::NumberType: return items<at::Scalar>(in, element);
      case c10::TypeKind::OptionalType: {
        if (element.castRaw<c10::OptionalType>()->getElementType()->kind() !=
            c10::TypeKind::TensorType)
          mismatch(tag, type);
        c10::List<std::optional<at::Tensor>> made;
        uint64_t count = in.count();
        for (uint64_t i = 0; i < count; ++i) made.push_back(read(in, element).toOptional<at::Tensor>());
        return made;
      }
      default: mismatch(tag, type);
    }
  }

  Player& player_;
};

Player& Player::get() {
  static Player* player = new Player();
  return *player;
}

const c10::Storage& Player::storage(uint64_t serial) const {
  auto found = memory_.find(serial);
  if (found == memory_.end()) throw TapeError("an operand stands in memory that the tape never made");
  return found->second;
}

void Player::bind(uint64_t serial, void* address, uint64_t size) {
  memory_.insert_or_assign(serial, over(address, size, false));
}
void Player::forget(uint64_t serial) { memory_.erase(serial); }

void Player::remember() {
  remembered_.clear();
  for (const auto& [serial, storage] : memory_) {
    const char* bytes = static_cast<const char*>(storage.data());
    remembered_.emplace(serial, Remembered{storage, std::string(bytes, storage.nbytes())});
  }
}

void Player::go_back() {
  memory_.clear();
  for (const auto& [serial, then] : remembered_) {
    std::memcpy(then.storage.mutable_data(), then.bytes.data(), then.bytes.size());
    memory_.emplace(serial, then.storage);
  }
}

bool Player::resolve(uint64_t serial, uint64_t* address, uint64_t* size) const {
  auto found = memory_.find(serial);
  if (found == memory_.end()) return false;
  *address = reinterpret_cast<uint64_t>(found->second.data());
  *size = found->second.nbytes();
  return true;
}

Player::Halt Player::play(std::string_view tape, uint64_t at) {
  if (at > tape.size()) throw TapeError("the position is past the tape's end");
  Reader in(tape);
  in.take(at);
  Tape& own = Tape::get();
  while (!in.empty()) {
    uint64_t start = in.position();
    auto kind = static_cast<Entry>(in.u8());
    std::string_view body = in.bytes();
    auto halt = [&](Stop why) {
      return Halt{why, in.position(), in.position() - body.size(), body.size()};
    };
    Reader entry(body);
    try {
      switch (kind) {
        case Entry::kBegin: return halt(Stop::kBegin);
        case Entry::kEnd: return halt(Stop::kEnd);
        case Entry::kModule: return halt(Stop::kModule);
        case Entry::kAlloc: {
          uint64_t serial = entry.varint(), size = entry.varint();
          if (serial == 0 || memory_.count(serial) == 1)
            throw TapeError("an allocation's number is taken");
          void* address = mkb_arena_alloc(size, 1);
          TORCH_CHECK_WITH(OutOfMemoryError, address != nullptr || size == 0,
                           "out of device memory in the replay: ", size, " bytes asked for");
          memory_.emplace(serial, over(address, size, true));
          break;
        }
        case Entry::kFree:
          memory_.erase(entry.varint());
          break;
        case Entry::kOp:
          operation(entry);
          break;
        case Entry::kLaunch:
          launch(entry);
          break;
        case Entry::kRead: {
          if (static_cast<Tag>(entry.u8()) != Tag::kTensor) break;  // an undefined tensor: nothing
          at::Tensor read = Decoder(*this).device_tensor(entry);
          if (own.on()) {
            Buffer out;
            encode_tensor(out, read, false);
            own.append(Entry::kRead, out.view());
          }
          break;
        }
        case Entry::kSync:
          own.append(Entry::kSync, {});
          break;
        default:
          throw TapeError("an entry is of no known kind");
      }
    } catch (const TapeError& error) {
      throw TapeError("entry at byte " + std::to_string(start) + ": " + error.what());
    }
  }
  return {Stop::kFinished, in.position(), 0, 0};
}

void Player::operation(Reader& entry) {
  std::string name(entry.bytes());
  if (!is_recorded(name)) throw TapeError("the operation " + name + " is not one of those recorded");
  size_t dot = name.find('.', name.find("::"));
  auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!op.has_value()) throw TapeError("this torch has no operation " + name);
  if (entry.u8() != 0) {
    auto seed = entry.fixed<uint64_t>();
    auto offset = entry.fixed<uint64_t>();
    if (offset % 4 != 0) throw TapeError("a random state's offset is no multiple of 4");
    at::Generator generator = at::globalContext().defaultGenerator(kCuda);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
    generator.set_offset(offset);
  }
  const auto& arguments = op->schema().arguments();
  if (entry.varint() != arguments.size())
    throw TapeError(name + " has another number of arguments");
  Decoder decode(*this);
  torch::jit::Stack stack;
  try {
    for (const c10::Argument& argument : arguments)
      stack.push_back(decode.read(entry, *argument.real_type()));
  } catch (const TapeError& error) {
    throw TapeError(name + ": " + error.what());
  }
  {
    at::AutoDispatchBelowADInplaceOrView below;
    op->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CUDA), &stack);
  }
  uint64_t count = entry.varint();
  if (count != stack.size()) throw TapeError(name + " has another number of results");
  for (const c10::IValue& result : stack) settle(entry, result, name);
  if (!entry.empty()) throw TapeError(name + ": bytes are left over");
}

// Gives new memory of a result its recorded number, and compares the rest.
void Player::settle(Reader& entry, const c10::IValue& result, const std::string& name) {
  Tag tag = static_cast<Tag>(entry.u8());
  switch (tag) {
    case Tag::kTensor: {
      Descriptor wanted = read_descriptor(entry);
      if (!result.isTensor() || !result.toTensor().defined() || !result.toTensor().is_cuda())
        throw TapeError(name + " gave no device tensor where the tape has one");
      const at::Tensor& got = result.toTensor();
      if (got.scalar_type() != wanted.shape.dtype || got.sizes() != wanted.shape.sizes ||
          got.strides() != wanted.strides)
        throw TapeError(name + " gave a tensor of another type, shape or strides than on the tape");
      if (wanted.serial == 0) return;
      if ((wanted.flags & kBorn) != 0) {
        if (!memory_.emplace(wanted.serial, got.storage()).second)
          throw TapeError(name + ": an allocation's number is taken");
      } else if (storage(wanted.serial).data() != got.storage().data()) {
        throw TapeError(name + " gave a tensor in other memory than on the tape");
      }
      uint64_t offset = static_cast<uint64_t>(got.storage_offset()) * got.dtype().itemsize();
      if (offset != wanted.offset)
        throw TapeError(name + " gave a tensor at another place than on the tape");
      return;
    }
    case Tag::kList: {
      uint64_t count = entry.count();
      if (!result.isTensorList() || result.toListRef().size() != count)
        throw TapeError(name + " gave another list than on the tape");
      for (const c10::IValue& item : result.toListRef()) settle(entry, item, name);
      return;
    }
    case Tag::kSameAsArgument: entry.varint(); return;
    case Tag::kUndefined:
    case Tag::kNone:
    case Tag::kGenerator: return;
    case Tag::kInt: entry.zigzag(); return;
    case Tag::kBool: entry.u8(); return;
    case Tag::kDouble: entry.fixed<double>(); return;
    case Tag::kComplex: entry.take(16); return;
    case Tag::kHostResult: read_shape(entry); return;
    default: throw TapeError(name + ": a result is of kind " + std::string(tag_name(tag)));
  }
}

void Player::launch(Reader& entry) {
  Request request;
  auto module = modules_.find(entry.varint());
  if (module == modules_.end()) throw TapeError("a launch names a module that the tape never made");
  request.module = module->second;
  request.shape.kernel = entry.bytes();
  request.dsl = entry.bytes();
  auto word = [&] {
    uint64_t value = entry.varint();
    if (value > UINT32_MAX) throw TapeError("a launch dimension is out of range");
    return static_cast<uint32_t>(value);
  };
  for (uint32_t* dims : {request.shape.grid, request.shape.block, request.shape.cluster})
    for (int i = 0; i < 3; ++i) dims[i] = word();
  request.shape.dynamic_shared_bytes = word();
  uint64_t count = entry.count();
  for (uint64_t i = 0; i < count; ++i) {
    Argument argument;
    argument.bytes = entry.bytes();
    uint64_t pointers = entry.count();
    for (uint64_t j = 0; j < pointers; ++j) {
      uint32_t position = word();
      uint64_t serial = entry.varint(), offset = entry.varint(), address = 0;
      if (serial != 0) {
        const c10::Storage& memory = storage(serial);
        if (offset > memory.nbytes()) throw TapeError("a launch's pointer is outside its memory");
        address = reinterpret_cast<uint64_t>(memory.data()) + offset;
      }
      argument.pointers.emplace_back(position, address);
    }
    request.arguments.push_back(std::move(argument));
  }
  mkb::launch(request);
}

}  // namespace mkb
