#include <absl/strings/str_join.h>
#include <cuda_runtime_api.h>

#include <set>
#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/formats/packed_pieces.h"
#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/formats/strips/strip_weights.h"

namespace lockstep::kernels {
absl::StatusOr<std::unique_ptr<StripWeights>> StripWeights::Create(
    std::span<const QuantizedMatrix> parts) {
  auto weights = std::make_unique<StripWeights>();
  LOCKSTEP_RETURN_IF_ERROR(
      AddPieces(parts, [&weights](const QuantizedMatrix& matrix) { return weights->Add(matrix); }));
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
  std::set<std::string> names;
  for (const Piece& piece : pieces_) names.emplace(StripCodecName(piece.matrix.codec));
  return absl::StrJoin(names, "+");
}

absl::Status StripWeights::Multiply(const CudaStream& stream, const GemmParams& params) const {
  int64_t first_output = 0;
  for (const Piece& piece : pieces_) {
    LOCKSTEP_RETURN_IF_ERROR(
        StripGemm(stream, ParamsOfPiece<StripGemmParams>(params, piece.matrix, first_output)));
    first_output += piece.matrix.n;
  }
  return absl::OkStatus();
}

bool StripWeights::HasSwiGlu() const {
  return pieces_.size() == 1 && pieces_[0].matrix.n % (2 * kBandRows) == 0;
}

absl::Status StripWeights::MultiplySwiGlu(const CudaStream& stream,
                                          const GemmParams& params) const {
  return StripGemmSwiGlu(stream, ParamsOfPiece<StripGemmParams>(params, pieces_[0].matrix, 0));
}

absl::Status StripWeights::Expand(const CudaStream& stream, BFloat16* output) const {
  for (const Piece& piece : pieces_) {
    LOCKSTEP_RETURN_IF_ERROR(ExpandStrips(stream, piece.matrix, output));
    output += piece.matrix.n * piece.matrix.k;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
