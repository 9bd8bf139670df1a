// Operands as the tape has them: device tensors by place, everything else by value.
#include "encode.h"

#include <ATen/core/List.h>

namespace mkb {
namespace {

void encode_shape(Buffer& out, const at::Tensor& tensor) {
  out.u8(static_cast<uint8_t>(tensor.scalar_type()));
  out.varint(static_cast<uint64_t>(tensor.dim()));
  for (int64_t size : tensor.sizes()) out.varint(static_cast<uint64_t>(size));
}

uint8_t flags_of(const at::Tensor& tensor) {
  uint8_t flags = 0;
  if (tensor.is_conj()) flags |= kConjugate;
  if (tensor.is_neg()) flags |= kNegative;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) flags |= kWrappedNumber;
  return flags;
}

void encode_device_tensor(Buffer& out, const at::Tensor& tensor, uint8_t flags, bool result) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "the virtual GPU holds strided tensors, not ",
                              tensor.layout(), " ones");
  Tape& tape = Tape::get();
  // The storage is located by its start: the first element of an empty view may stand at its end.
  const void* base = tensor.storage().data();
  Tape::Place place = tape.locate(base, !result);
  if (result && place.serial != 0 && tape.first_sight(place.serial)) flags |= kBorn;
  out.tag(Tag::kTensor);
  out.u8(flags | flags_of(tensor));
  encode_shape(out, tensor);
  for (int64_t stride : tensor.strides()) out.varint(static_cast<uint64_t>(stride));
  out.varint(place.serial);
  out.varint(place.offset +
             static_cast<uint64_t>(tensor.storage_offset()) * tensor.dtype().itemsize());
  if ((flags & kBorn) != 0) out.varint(place.size);
}

}  // namespace

void encode_tensor(Buffer& out, const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) {
    out.tag(Tag::kUndefined);
  } else if (tensor.is_cuda()) {
    encode_device_tensor(out, tensor, written ? kWritten : 0, false);
  } else if (tensor.device().is_cpu() && written) {
    out.tag(Tag::kHostResult);
    encode_shape(out, tensor);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
                                "the virtual GPU takes no operand on ", tensor.device(), " of layout ",
                                tensor.layout());
    at::Tensor data = tensor.resolve_conj().resolve_neg().contiguous();
    out.tag(Tag::kHostTensor);
    out.u8(flags_of(tensor) & kWrappedNumber);
    encode_shape(out, data);
    out.varint(data.nbytes());
    out.raw(data.const_data_ptr(), data.nbytes());
  }
}

void encode_result(Buffer& out, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cuda()) {
    encode_device_tensor(out, tensor, 0, true);
  } else {
    encode_tensor(out, tensor, true);
  }
}

void encode_value(Buffer& out, const c10::IValue& value, bool written) {
  if (value.isTensor()) {
    encode_tensor(out, value.toTensor(), written);
  } else if (value.isNone()) {
    out.tag(Tag::kNone);
  } else if (value.isBool()) {
    out.tag(Tag::kBool);
    out.u8(value.toBool() ? 1 : 0);
  } else if (value.isInt()) {
    out.tag(Tag::kInt);
    out.zigzag(value.toInt());
  } else if (value.isSymInt()) {
    out.tag(Tag::kInt);
    out.zigzag(value.toSymInt().expect_int());
  } else if (value.isDouble()) {
    out.tag(Tag::kDouble);
    out.f64(value.toDouble());
  } else if (value.isComplexDouble()) {
    out.tag(Tag::kComplex);
    out.f64(value.toComplexDouble().real());
    out.f64(value.toComplexDouble().imag());
  } else if (value.isString()) {
    out.tag(Tag::kString);
    out.bytes(value.toStringView());
  } else if (value.isDevice()) {
    out.tag(Tag::kDevice);
    out.bytes(value.toDevice().str());
  } else if (value.isGenerator()) {
    out.tag(Tag::kGenerator);
  } else if (value.isIntList() || value.isSymIntList() || value.isDoubleList() ||
             value.isBoolList() || value.isTensorList() || value.isList()) {
    auto items = value.toListRef();
    out.tag(Tag::kList);
    out.varint(items.size());
    for (const c10::IValue& item : items) encode_value(out, item, written);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the virtual GPU takes no argument of kind ", value.tagKind());
  }
}

}  // namespace mkb
