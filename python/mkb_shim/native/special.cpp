// Operations that torch implements on CUDA alone, or whose CPU kernel is no use, on CPU tensors.
//
// Each takes the arguments of its schema off the stack and leaves the results. They are written
// from the operations' public documentation, in float32 where the CUDA kernels accumulate in it.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>

#include <cmath>

#include "fallback.h"

namespace mkb {
namespace {

using at::Tensor;
using torch::jit::Stack;

// The arguments of one call, by position, and the place for its results.
class Call {
 public:
  Call(Stack& stack, size_t arguments)
      : stack_(stack), arguments_(stack.end() - static_cast<long>(arguments), stack.end()) {
    stack.erase(stack.end() - static_cast<long>(arguments), stack.end());
  }
  const Tensor& tensor(size_t i) const { return arguments_[i].toTensor(); }
  std::optional<Tensor> maybe_tensor(size_t i) const {
    auto value = arguments_[i].toOptional<Tensor>();
    return value.has_value() && value->defined() ? value : std::nullopt;
  }
  double real(size_t i) const { return arguments_[i].toDouble(); }
  bool flag(size_t i) const { return arguments_[i].toBool(); }
  int64_t integer(size_t i) const { return arguments_[i].toInt(); }
  const c10::IValue& operator[](size_t i) const { return arguments_[i]; }
  std::optional<double> maybe_real(size_t i) const { return arguments_[i].toOptional<double>(); }
  std::optional<at::ScalarType> maybe_type(size_t i) const {
    return arguments_[i].toOptional<at::ScalarType>();
  }
  void give(c10::IValue value) { stack_.push_back(std::move(value)); }

 private:
  Stack& stack_;
  std::vector<c10::IValue> arguments_;
};

Tensor wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// ---- products with a result type of their own: (mat1, mat2, out_dtype[, out]) ----

template <Tensor (*Product)(const Tensor&, const Tensor&)>
Tensor wide_product(const Tensor& a, const Tensor& b, at::ScalarType type) {
  return Product(wide(a), wide(b)).to(type);
}

Tensor mm(const Tensor& a, const Tensor& b) { return at::mm(a, b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return at::bmm(a, b); }

template <Tensor (*Product)(const Tensor&, const Tensor&), bool Out>
void product(Stack& stack) {
  Call call(stack, Out ? 4 : 3);
  Tensor result = wide_product<Product>(call.tensor(0), call.tensor(1), *call.maybe_type(2));
  if constexpr (Out) {
    Tensor out = call.tensor(3);
    out.resize_(result.sizes());
    call.give(out.copy_(result));
  } else {
    call.give(result);
  }
}

// (self, mat1, mat2, out_dtype, beta, alpha[, out])
template <Tensor (*Product)(const Tensor&, const Tensor&), bool Out>
void product_plus(Stack& stack) {
  Call call(stack, Out ? 7 : 6);
  Tensor result = Product(wide(call.tensor(1)), wide(call.tensor(2))) * call[5].toScalar();
  at::Scalar beta = call[4].toScalar();
  // A beta of 0 ignores the first operand, NaN included.
  if (beta.toComplexDouble() != 0.0) result = result + wide(call.tensor(0)) * beta;
  result = result.to(*call.maybe_type(3));
  if constexpr (Out) {
    Tensor out = call.tensor(6);
    out.resize_(result.sizes());
    call.give(out.copy_(result));
  } else {
    call.give(result);
  }
}

// ---- products of scaled low-precision matrices ----

// The matrix times its scales, in float32. A scale of r x c values covers equal blocks.
Tensor dequantize(const Tensor& matrix, const Tensor& scale, const char* name) {
  Tensor values = matrix.to(at::kFloat);
  TORCH_CHECK_NOT_IMPLEMENTED(scale.scalar_type() == at::kFloat, "the virtual GPU does not model ",
                              "_scaled_mm with ", name, " of type ", scale.scalar_type(),
                              ": dequantize and multiply instead");
  if (scale.numel() == 1) return values * scale.reshape({});
  TORCH_CHECK(scale.dim() == 2, name, " must have one element or two dimensions");
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  TORCH_CHECK(scale.size(0) > 0 && scale.size(1) > 0 && rows % scale.size(0) == 0 &&
                  columns % scale.size(1) == 0,
              name, " of shape ", scale.sizes(), " does not divide a matrix of ", matrix.sizes());
  Tensor blocks = values.reshape({scale.size(0), rows / scale.size(0), scale.size(1),
                                  columns / scale.size(1)});
  return (blocks * scale.unsqueeze(1).unsqueeze(3)).reshape({rows, columns});
}

// (self, mat2, scale_a, scale_b, bias?, scale_result?, out_dtype?, use_fast_accum[, out])
template <bool Out>
void scaled_mm(Stack& stack) {
  Call call(stack, Out ? 9 : 8);
  Tensor result = at::mm(dequantize(call.tensor(0), call.tensor(2), "scale_a"),
                         dequantize(call.tensor(1), call.tensor(3), "scale_b"));
  if (auto bias = call.maybe_tensor(4)) result = result + bias->to(at::kFloat);
  at::ScalarType type = call.maybe_type(6).value_or(call.tensor(0).scalar_type());
  if (auto scale = call.maybe_tensor(5); scale && c10::isFloat8Type(type)) result = result * *scale;
  result = result.to(type);
  if constexpr (Out) {
    Tensor out = call.tensor(8);
    out.resize_(result.sizes());
    call.give(out.copy_(result));
  } else {
    call.give(result);
  }
}

// ---- attention ----

Tensor heads_like(const Tensor& shared, const Tensor& query) {
  if (shared.size(1) == query.size(1)) return shared;
  return shared.repeat_interleave(query.size(1) / shared.size(1), 1);
}

Tensor sum_heads(const Tensor& gradient, const Tensor& shared) {
  if (gradient.size(1) == shared.size(1)) return gradient.to(shared.scalar_type());
  int64_t group = gradient.size(1) / shared.size(1);
  auto sizes = gradient.sizes().vec();
  sizes[1] = shared.size(1);
  sizes.insert(sizes.begin() + 2, group);
  return gradient.reshape(sizes).sum(2).to(shared.scalar_type());
}

struct Attention {
  Tensor query, key, value;  // batch, heads, length, width
  std::optional<Tensor> bias;
  bool causal;
  double scale;
};

double scale_of(const Tensor& query, std::optional<double> given) {
  return given.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// Scores before the softmax, in float32 or wider.
Tensor scores(const Attention& at_) {
  Tensor made = at::matmul(wide(at_.query), wide(at_.key).transpose(-2, -1)) * at_.scale;
  if (at_.bias) made = made + at_.bias->to(made.scalar_type());
  if (at_.causal) {
    Tensor later = at::ones({made.size(-2), made.size(-1)}, made.options().dtype(at::kBool)).triu(1);
    made = made.masked_fill(later, -INFINITY);
  }
  return made;
}

// Rows that see nothing give zeros.
Tensor weights(const Tensor& scores, const Tensor& logsumexp) {
  Tensor nothing = logsumexp.eq(-INFINITY);
  return (scores - logsumexp.masked_fill(nothing, 0.0).unsqueeze(-1)).exp();
}

std::pair<Tensor, Tensor> attend(const Attention& at_, double dropout) {
  Tensor made = scores(at_);
  Tensor logsumexp = made.logsumexp(-1);
  Tensor share = weights(made, logsumexp);
  if (dropout > 0.0) share = at::dropout(share, dropout, true);
  Tensor output = at::matmul(share, wide(at_.value)).to(at_.query.scalar_type());
  // As the fused kernels lay it out: batch, length, heads, width in memory.
  return {output.transpose(1, 2).contiguous().transpose(1, 2), logsumexp};
}

struct Gradients {
  Tensor query, key, value, bias;
};

Gradients attend_backward(const Attention& at_, const Tensor& gradient, const Tensor& logsumexp) {
  Tensor share = weights(scores(at_), logsumexp.to(wide(at_.query).scalar_type()));
  Tensor out = wide(gradient);
  Tensor share_gradient = at::matmul(out, wide(at_.value).transpose(-2, -1));
  Tensor score_gradient =
      share * (share_gradient - (share_gradient * share).sum(-1, /*keepdim=*/true));
  return {(at::matmul(score_gradient, wide(at_.key)) * at_.scale).to(at_.query.scalar_type()),
          (at::matmul(score_gradient.transpose(-2, -1), wide(at_.query)) * at_.scale)
              .to(at_.key.scalar_type()),
          at::matmul(share.transpose(-2, -1), out).to(at_.value.scalar_type()), score_gradient};
}

void refuse_dropout(double dropout) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0.0,
                              "the virtual GPU does not model gradients of attention with dropout");
}

Tensor seed() { return at::zeros({}, at::TensorOptions().dtype(at::kLong)); }

// (query, key, value, dropout_p, is_causal, return_debug_mask, scale?) -> output, logsumexp,
// cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_attn_mask
void flash(Stack& stack) {
  Call call(stack, 7);
  const Tensor& query = call.tensor(0);
  Tensor key = heads_like(call.tensor(1), query), value = heads_like(call.tensor(2), query);
  Tensor output, logsumexp;
  if (call.real(3) > 0.0) {
    std::tie(output, logsumexp) = attend(
        {query, key, value, std::nullopt, call.flag(4), scale_of(query, call.maybe_real(6))},
        call.real(3));
  } else {
    std::tie(output, logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, call.flag(4), std::nullopt, call.maybe_real(6));
  }
  call.give(output);
  call.give(logsumexp);
  call.give(Tensor());
  call.give(Tensor());
  call.give(query.size(2));
  call.give(key.size(2));
  call.give(seed());
  call.give(seed());
  call.give(at::empty({0}, query.options()));
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
// is_causal, philox_seed, philox_offset, scale?)
void flash_backward(Stack& stack) {
  Call call(stack, 15);
  refuse_dropout(call.real(10));
  const Tensor& query = call.tensor(1);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      call.tensor(0), query, heads_like(call.tensor(2), query), heads_like(call.tensor(3), query),
      call.tensor(4), call.tensor(5), 0.0, call.flag(11), std::nullopt, call.maybe_real(14));
  call.give(dq);
  call.give(sum_heads(dk, call.tensor(2)));
  call.give(sum_heads(dv, call.tensor(3)));
}

Attention biased(const Call& call, size_t query, bool causal, std::optional<double> scale) {
  const Tensor& q = call.tensor(query);
  return {q,
          heads_like(call.tensor(query + 1), q),
          heads_like(call.tensor(query + 2), q),
          call.maybe_tensor(query + 3),
          causal,
          scale_of(q, scale)};
}

// (query, key, value, attn_bias?, compute_log_sumexp, dropout_p, is_causal, scale?) -> output,
// log_sumexp, philox_seed, philox_offset
void efficient(Stack& stack) {
  Call call(stack, 8);
  auto [output, logsumexp] =
      attend(biased(call, 0, call.flag(6), call.maybe_real(7)), call.real(5));
  call.give(output);
  call.give(call.flag(4) ? logsumexp : at::empty({0}, logsumexp.options()));
  call.give(seed());
  call.give(seed());
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
// grad_input_mask, is_causal, scale?) -> four gradients
void efficient_backward(Stack& stack) {
  Call call(stack, 13);
  if (!call.tensor(0).defined()) {
    for (int i = 0; i < 4; ++i) call.give(Tensor());
    return;
  }
  refuse_dropout(call.real(9));
  Attention attention = biased(call, 1, call.flag(11), call.maybe_real(12));
  Gradients made = attend_backward(attention, call.tensor(0), call.tensor(6));
  call.give(made.query);
  call.give(sum_heads(made.key, call.tensor(2)));
  call.give(sum_heads(made.value, call.tensor(3)));
  bool wanted = call[10].toBoolList().get(3) && attention.bias.has_value();
  call.give(wanted ? made.bias.sum_to_size(attention.bias->sizes())
                         .to(attention.bias->scalar_type())
                   : Tensor());
}

// (query, key, value, attn_bias?, compute_log_sumexp, dropout_p, is_causal, return_debug_mask,
// scale?) -> output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset,
// debug_attn_mask
void cudnn(Stack& stack) {
  Call call(stack, 9);
  Attention attention = biased(call, 0, call.flag(6), call.maybe_real(8));
  auto [output, logsumexp] = attend(attention, call.real(5));
  call.give(output);
  call.give(logsumexp);
  call.give(Tensor());
  call.give(Tensor());
  call.give(attention.query.size(2));
  call.give(attention.key.size(2));
  call.give(seed());
  call.give(seed());
  call.give(at::empty({0}, attention.query.options()));
}

// (grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
// cum_seq_k, max_q, max_k, dropout_p, is_causal, scale?) -> three gradients
void cudnn_backward(Stack& stack) {
  Call call(stack, 16);
  refuse_dropout(call.real(13));
  Attention attention{call.tensor(1),
                      heads_like(call.tensor(2), call.tensor(1)),
                      heads_like(call.tensor(3), call.tensor(1)),
                      call.maybe_tensor(8),
                      call.flag(14),
                      scale_of(call.tensor(1), call.maybe_real(15))};
  Gradients made = attend_backward(attention, call.tensor(0), call.tensor(5));
  call.give(made.query);
  call.give(sum_heads(made.key, call.tensor(2)));
  call.give(sum_heads(made.value, call.tensor(3)));
}

// ---- normalization ----

// (grad_out, input, normalized_shape, rstd, weight?, output_mask[2]) -> grad_input, grad_weight
void rms_norm_backward(Stack& stack) {
  Call call(stack, 6);
  Tensor gradient = wide(call.tensor(0)), input = wide(call.tensor(1)), rstd = wide(call.tensor(3));
  auto weight = call.maybe_tensor(4);
  auto mask = call[5].toBoolList();
  int64_t normalized = static_cast<int64_t>(call[2].toIntVector().size());
  std::vector<int64_t> inner, outer;
  for (int64_t i = 0; i < input.dim(); ++i)
    (i < input.dim() - normalized ? outer : inner).push_back(i);
  Tensor unit = input * rstd;
  Tensor scaled = weight ? gradient * wide(*weight) : gradient;
  Tensor mean = (scaled * unit).mean(inner, /*keepdim=*/true);
  call.give(mask.get(0) ? (rstd * (scaled - unit * mean)).to(call.tensor(1).scalar_type())
                        : Tensor());
  Tensor product = gradient * unit;
  call.give(mask.get(1) && weight
                ? (outer.empty() ? product : product.sum(outer)).to(weight->scalar_type())
                : Tensor());
}

// ---- questions about libraries that are not there ----

void no(Stack& stack) {
  Call call(stack, 5);
  call.give(false);
}

}  // namespace

const std::unordered_map<std::string, Body>& special_bodies() {
  static const std::unordered_map<std::string, Body> bodies = {
      {"aten::mm.dtype", &product<mm, false>},
      {"aten::mm.dtype_out", &product<mm, true>},
      {"aten::bmm.dtype", &product<bmm, false>},
      {"aten::bmm.dtype_out", &product<bmm, true>},
      {"aten::addmm.dtype", &product_plus<mm, false>},
      {"aten::addmm.dtype_out", &product_plus<mm, true>},
      {"aten::baddbmm.dtype", &product_plus<bmm, false>},
      {"aten::baddbmm.dtype_out", &product_plus<bmm, true>},
      {"aten::_scaled_mm", &scaled_mm<false>},
      {"aten::_scaled_mm.out", &scaled_mm<true>},
      {"aten::_scaled_dot_product_flash_attention", &flash},
      {"aten::_scaled_dot_product_flash_attention_backward", &flash_backward},
      {"aten::_scaled_dot_product_efficient_attention", &efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", &efficient_backward},
      {"aten::_scaled_dot_product_cudnn_attention", &cudnn},
      {"aten::_scaled_dot_product_cudnn_attention_backward", &cudnn_backward},
      {"aten::_fused_rms_norm_backward", &rms_norm_backward},
      {"aten::_use_cudnn_ctc_loss", &no},
      {"aten::_use_cudnn_ctc_loss.Tensor", &no},
      {"aten::_use_miopen_ctc_loss", &no},
      {"aten::_use_miopen_ctc_loss.Tensor", &no},
  };
  return bodies;
}

}  // namespace mkb
