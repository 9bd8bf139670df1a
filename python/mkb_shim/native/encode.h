// Operands as the tape has them.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "tape.h"

namespace mkb {

// An undefined tensor, a device tensor's descriptor, or a host tensor with its data (`written`: its
// shape alone, for the operation is to fill it). Device tensors' allocations are announced.
void encode_tensor(Buffer& out, const at::Tensor& tensor, bool written);

// A result of an operation: like an operand, but an allocation seen for the first time is born here.
void encode_result(Buffer& out, const at::Tensor& tensor);

// An argument. Throws c10::NotImplementedError for a kind of value that no operation here takes.
void encode_value(Buffer& out, const c10::IValue& value, bool written);

}  // namespace mkb
