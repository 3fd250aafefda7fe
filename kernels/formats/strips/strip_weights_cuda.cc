#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/formats/stack_rows.h"
#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/formats/strips/strip_weights.h"

namespace lockstep::kernels {
namespace {

// The product with rows [first_output, first_output + matrix.n) of the weights.
StripGemmParams ParamsOf(const GemmParams& params, const StripMatrix& matrix,
                         int64_t first_output) {
  return {.input = params.input,
          .input_stride = params.input_stride,
          .weights = matrix,
          .bias = params.bias == nullptr ? nullptr : params.bias + first_output,
          .output = params.output == nullptr ? nullptr : params.output + first_output,
          .output_f32 = params.output_f32 == nullptr ? nullptr : params.output_f32 + first_output,
          .output_stride = params.output_stride,
          .num_rows = params.num_rows};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StripWeights>> StripWeights::Create(
    std::span<const QuantizedMatrix> parts) {
  auto weights = std::make_unique<StripWeights>();
  for (const std::span<const QuantizedMatrix> run : RunsOfOneKind(parts)) {
    if (run.size() == 1) {
      LOCKSTEP_RETURN_IF_ERROR(weights->Add(run[0]));
      continue;
    }
    const absl::StatusOr<QuantizedMatrix> stacked = StackRows(run);
    if (stacked.ok()) {
      const absl::Status status = weights->Add(*stacked);
      if (status.ok()) continue;
      if (!absl::IsInvalidArgument(status)) return status;
    }
    for (const QuantizedMatrix& part : run) LOCKSTEP_RETURN_IF_ERROR(weights->Add(part));
  }
  return weights;
}

absl::Status StripWeights::Add(const QuantizedMatrix& matrix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const PackedStrips packed, PackStrips(matrix));
  Piece piece;
  piece.matrix = packed.matrix;
  LOCKSTEP_ASSIGN_OR_RETURN(piece.memory,
                            DeviceBuffer::Create(packed.storage.size(), "packed weights"));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemcpy(piece.memory.data(), packed.storage.data(),
                                           packed.storage.size(), cudaMemcpyHostToDevice));
  piece.matrix.data = piece.memory.data();
  pieces_.push_back(std::move(piece));
  return absl::OkStatus();
}

int64_t StripWeights::num_bytes() const {
  int64_t num_bytes = 0;
  for (const Piece& piece : pieces_) num_bytes += piece.matrix.num_bytes();
  return num_bytes;
}

std::string StripWeights::storage_name() const {
  std::vector<std::string> names;
  for (const Piece& piece : pieces_) names.emplace_back(StripCodecName(piece.matrix.codec));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, "+"));
}

absl::Status StripWeights::Multiply(const CudaStream& stream, const GemmParams& params) const {
  int64_t first_output = 0;
  for (const Piece& piece : pieces_) {
    LOCKSTEP_RETURN_IF_ERROR(StripGemm(stream, ParamsOf(params, piece.matrix, first_output)));
    first_output += piece.matrix.n;
  }
  return absl::OkStatus();
}

bool StripWeights::HasSwiGlu() const {
  return pieces_.size() == 1 && pieces_[0].matrix.n % (2 * kBandRows) == 0;
}

absl::Status StripWeights::MultiplySwiGlu(const CudaStream& stream,
                                          const GemmParams& params) const {
  return StripGemmSwiGlu(stream, ParamsOf(params, pieces_[0].matrix, 0));
}

absl::Status StripWeights::Expand(const CudaStream& stream, BFloat16* output) const {
  for (const Piece& piece : pieces_) {
    LOCKSTEP_RETURN_IF_ERROR(ExpandStrips(stream, piece.matrix, output));
    output += piece.matrix.n * piece.matrix.k;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
