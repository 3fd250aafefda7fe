#include "tests/worker/model/weights/swapped_weights.h"

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

uint16_t SwapBytes(uint16_t value) { return static_cast<uint16_t>(value << 8 | value >> 8); }

}  // namespace

absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> SwappedWeights::Create(
    std::span<const kernels::QuantizedMatrix> parts) {
  auto weights = std::make_unique<SwappedWeights>();
  for (const kernels::QuantizedMatrix& part : parts) {
    weights->k_ = part.k;
    std::vector<BFloat16> row(static_cast<size_t>(part.k));
    for (int64_t i = 0; i < part.n; ++i) {
      kernels::DequantizeRow(part, i, row.data());
      for (const BFloat16 value : row) weights->values_.push_back(SwapBytes(value.bits));
    }
  }
  return weights;
}

int64_t SwappedWeights::num_bytes() const {
  return static_cast<int64_t>(values_.size() * sizeof(values_[0]));
}

absl::Status SwappedWeights::Multiply(const kernels::Stream& stream,
                                      const kernels::GemmParams& params) const {
  const int64_t n = static_cast<int64_t>(values_.size()) / k_;
  std::vector<BFloat16> panels(static_cast<size_t>(kernels::PackedElements(n, k_)));
  std::vector<float> row(static_cast<size_t>(k_));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k_; ++j) {
      const BFloat16 value = {SwapBytes(values_[static_cast<size_t>(i * k_ + j)])};
      row[static_cast<size_t>(j)] = kernels::ToFloat(value);
    }
    kernels::PackRows(row.data(), i, 1, k_, panels.data());
  }
  kernels::GemmParams plain = params;
  plain.weights = {.data = panels.data(), .n = n, .k = k_};
  return kernels::Gemm(stream, plain);
}

}  // namespace lockstep::worker
