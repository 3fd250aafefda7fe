#include "kernels/formats/panels/expand_panel.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/formats/code_value.h"
#include "kernels/formats/panels/with_code_kind.h"
#include "kernels/gemm/packed_matrix.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

// The even columns of all outputs, then the odd ones.
constexpr int kNumLanes = 2 * kPanelOutputs;

// Of one pair of columns.
struct LaneParameters {
  float scale[kNumLanes];
  float minimum[kNumLanes];
  float zero[kNumLanes];
};

template <typename T>
T ElementAt(const std::byte* part, int64_t index) {
  T value;
  std::memcpy(&value, part + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float ScaleAt(PanelScales scales, const std::byte* part, int64_t index) {
  switch (scales) {
    case PanelScales::kFloat32:
      return ElementAt<float>(part, index);
    case PanelScales::kFloat16:
      return Float16ToFloat(ElementAt<uint16_t>(part, index));
    case PanelScales::kBFloat16:
      return ToFloat(ElementAt<BFloat16>(part, index));
    case PanelScales::kBytes:
      return ElementAt<uint8_t>(part, index);
    case PanelScales::kSignedBytes:
      return ElementAt<int8_t>(part, index);
  }
  return 0.0f;
}

class PanelExpander {
 public:
  PanelExpander(const PanelLayout& layout, const std::byte* panel)
      : layout_(layout), panel_(panel), middle_(MiddleCode(layout.kind)) {}

  template <CodeKind kind>
  void Expand(int64_t step_begin, int64_t step_end, BFloat16* pairs) {
    constexpr int kStepColumns = StepColumns(kind);
    for (int64_t step = step_begin; step < step_end; ++step) {
      for (int pair = 0; pair < kStepColumns / 2; ++pair, pairs += kNumLanes) {
        for (const int parity : {0, 1}) {
          SetGroup((step * kStepColumns + 2 * pair + parity) / layout_.group_columns, parity);
        }
        ReadCodes<kind>(panel_ + step * StepBytes(kind), pair);
        ComputePair<kind>(pairs);
      }
    }
  }

 private:
  // Columns beyond k belong to the last group.
  void SetGroup(int64_t group, int parity) {
    group = std::min(group, layout_.num_groups - 1);
    if (group_[parity] == group) return;
    group_[parity] = group;
    const bool has_two_levels = layout_.block_columns != 0;
    const int64_t block =
        has_two_levels ? group * layout_.group_columns / layout_.block_columns : 0;
    for (int64_t output = 0; output < kPanelOutputs; ++output) {
      const int64_t lane = parity * kPanelOutputs + output;
      const int64_t index = group * kPanelOutputs + output;
      const int64_t block_index = block * kPanelOutputs + output;
      lanes_.scale[lane] = ScaleAt(layout_.scales, panel_ + layout_.scale_offset, index);
      lanes_.minimum[lane] = layout_.has_minima
                                 ? ScaleAt(layout_.scales, panel_ + layout_.minimum_offset, index)
                                 : 0.0f;
      lanes_.zero[lane] =
          layout_.has_zeros ? ElementAt<uint8_t>(panel_ + layout_.zero_offset, index) : middle_;
      if (!has_two_levels) continue;
      lanes_.scale[lane] *= HalfAt(layout_.block_scale_offset, block_index);
      if (!layout_.has_minima) continue;
      lanes_.minimum[lane] *= HalfAt(layout_.block_minimum_offset, block_index);
    }
  }

  float HalfAt(int64_t part_offset, int64_t index) const {
    return ScaleAt(PanelScales::kFloat16, panel_ + part_offset, index);
  }

  template <CodeKind kind>
  void ReadCodes(const std::byte* step, int pair) {
    using Word = std::conditional_t<WordBytes(kind) == 2, uint16_t, uint32_t>;
    constexpr int kLowBits = kind == CodeKind::kInt8 || kind == CodeKind::kFp8E4M3 ? 8 : 4;
    const std::byte* const high = step + StepWordBytes(kind);
    for (int lane = 0; lane < kNumLanes; ++lane) {
      uint32_t code = ElementAt<Word>(step, lane) >> (kLowBits * pair) & ((1u << kLowBits) - 1);
      if constexpr (kind == CodeKind::kInt5 || kind == CodeKind::kInt5Min) {
        code |= (ElementAt<uint8_t>(high, lane) >> pair & 1u) << 4;
      } else if constexpr (kind == CodeKind::kInt6) {
        code |= (ElementAt<uint16_t>(high, lane) >> (2 * pair) & 3u) << 4;
      }
      codes_[lane] = static_cast<uint8_t>(code);
    }
  }

  template <CodeKind kind>
  void ComputePair(BFloat16* pairs) const {
    BFloat16 values[kNumLanes];
    for (int lane = 0; lane < kNumLanes; ++lane) {
      values[lane] = ToBFloat16(CodeValue<kind>(codes_[lane], lanes_.zero[lane], lanes_.scale[lane],
                                                lanes_.minimum[lane]));
    }
    for (int output = 0; output < kPanelOutputs; ++output) {
      pairs[2 * output] = values[output];
      pairs[2 * output + 1] = values[kPanelOutputs + output];
    }
  }

  const PanelLayout& layout_;
  const std::byte* const panel_;
  const float middle_;
  int64_t group_[2] = {-1, -1};  // of each parity
  LaneParameters lanes_;
  uint8_t codes_[kNumLanes];
};

}  // namespace

void ExpandPanel(const PanelMatrix& matrix, int64_t panel, int64_t step_begin, int64_t step_end,
                 BFloat16* pairs) {
  PanelExpander expander(matrix.layout, matrix.data + panel * matrix.layout.panel_bytes);
  WithCodeKind(matrix.layout.kind, [&](auto kind) {
    expander.Expand<decltype(kind)::kKind>(step_begin, step_end, pairs);
  });
}

}  // namespace lockstep::kernels
