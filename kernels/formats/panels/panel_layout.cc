#include "kernels/formats/panels/panel_layout.h"

#include "common/check.h"
#include "kernels/core/divide_up.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kPartAlignment = 64;

// The place of the next part.
int64_t Append(int64_t num_bytes, PanelLayout* layout) {
  const int64_t offset = layout->panel_bytes;
  layout->panel_bytes += DivideUp(num_bytes, kPartAlignment) * kPartAlignment;
  return offset;
}

}  // namespace

int64_t BytesOf(PanelScales scales) {
  switch (scales) {
    case PanelScales::kFloat32:
      return 4;
    case PanelScales::kFloat16:
    case PanelScales::kBFloat16:
      return 2;
    case PanelScales::kBytes:
    case PanelScales::kSignedBytes:
      return 1;
  }
  LOCKSTEP_CHECK(false, "no such type of scales");
  return 0;
}

void PlaceParts(int64_t k, PanelLayout* layout) {
  const int step_columns = StepColumns(layout->kind);
  const int64_t blocks = layout->block_columns == 0 ? 0 : DivideUp(k, layout->block_columns);
  layout->num_groups = DivideUp(k, layout->group_columns);
  layout->num_blocks = blocks;
  layout->num_steps = DivideUp(k, step_columns);
  const int64_t values = layout->num_groups * kPanelOutputs;
  const int64_t scale_bytes = values * BytesOf(layout->scales);
  const int64_t block_bytes = blocks * kPanelOutputs * 2;
  layout->panel_bytes = 0;
  Append(layout->num_steps * StepBytes(layout->kind), layout);
  layout->scale_offset = Append(scale_bytes, layout);
  layout->minimum_offset = Append(layout->has_minima ? scale_bytes : 0, layout);
  layout->zero_offset = Append(layout->has_zeros ? values : 0, layout);
  layout->block_scale_offset = Append(block_bytes, layout);
  layout->block_minimum_offset = Append(layout->has_minima ? block_bytes : 0, layout);
}

}  // namespace lockstep::kernels
