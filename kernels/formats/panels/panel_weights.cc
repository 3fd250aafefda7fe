#include "kernels/formats/panels/panel_weights.h"

#include <absl/strings/str_join.h>

#include <set>
#include <utility>

#include "common/status.h"
#include "kernels/formats/packed_pieces.h"
#include "kernels/formats/panels/panel_gemm.h"

namespace lockstep::kernels {
absl::StatusOr<std::unique_ptr<PackedWeights>> PanelWeights::Create(
    std::span<const QuantizedMatrix> parts) {
  auto weights = std::make_unique<PanelWeights>();
  LOCKSTEP_RETURN_IF_ERROR(
      AddPieces(parts, [&weights](const QuantizedMatrix& matrix) { return weights->Add(matrix); }));
  return weights;
}

absl::Status PanelWeights::Add(const QuantizedMatrix& matrix) {
  LOCKSTEP_ASSIGN_OR_RETURN(PackedPanels panels, PackPanels(matrix));
  if (!panels.matrix.layout.is_fused) {
    return InvalidArgument("{}: some scales or groups are not decoded in registers",
                           CodesName(matrix));
  }
  pieces_.push_back({.panels = std::move(panels), .name = CodesName(matrix)});
  return absl::OkStatus();
}

int64_t PanelWeights::num_bytes() const {
  int64_t num_bytes = 0;
  for (const Piece& piece : pieces_) num_bytes += NumBytes(piece.panels.matrix);
  return num_bytes;
}

std::string PanelWeights::storage_name() const {
  std::set<std::string> names;
  for (const Piece& piece : pieces_) names.insert(piece.name);
  return absl::StrJoin(names, "+");
}

absl::Status PanelWeights::Multiply(const Stream& stream, const GemmParams& params) const {
  int64_t first_output = 0;
  for (const Piece& piece : pieces_) {
    const PanelMatrix& matrix = piece.panels.matrix;
    LOCKSTEP_RETURN_IF_ERROR(
        PanelGemm(stream, ParamsOfPiece<PanelGemmParams>(params, matrix, first_output)));
    first_output += matrix.n;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
