#include "kernels/formats/panels/panel_weights.h"

#include <absl/strings/str_join.h>

#include <set>
#include <utility>

#include "common/status.h"
#include "kernels/formats/panels/panel_gemm.h"
#include "kernels/formats/stack_rows.h"

namespace lockstep::kernels {
namespace {

// The product with rows [first_output, first_output + matrix.n) of the weights.
PanelGemmParams ParamsOf(const GemmParams& params, const PanelMatrix& matrix,
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

absl::StatusOr<std::unique_ptr<PackedWeights>> PanelWeights::Create(
    std::span<const QuantizedMatrix> parts) {
  auto weights = std::make_unique<PanelWeights>();
  for (const std::span<const QuantizedMatrix> run : RunsOfOneKind(parts)) {
    if (run.size() == 1) {
      LOCKSTEP_RETURN_IF_ERROR(weights->Add(run[0]));
      continue;
    }
    const absl::StatusOr<QuantizedMatrix> stacked = StackRows(run);
    if (stacked.ok()) {
      LOCKSTEP_RETURN_IF_ERROR(weights->Add(*stacked));
      continue;
    }
    for (const QuantizedMatrix& part : run) LOCKSTEP_RETURN_IF_ERROR(weights->Add(part));
  }
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
    LOCKSTEP_RETURN_IF_ERROR(PanelGemm(stream, ParamsOf(params, matrix, first_output)));
    first_output += matrix.n;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
