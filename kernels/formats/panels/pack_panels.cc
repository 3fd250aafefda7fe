#include <algorithm>
#include <cstring>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/panels/choose_panel_layout.h"
#include "kernels/formats/panels/panel_matrix.h"
#include "kernels/formats/panels/with_code_kind.h"
#include "kernels/formats/small_floats.h"
#include "kernels/gemm/packed_matrix.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

// Branch-free, so that a loop over codes becomes vector instructions.
template <CodeKind kKind>
bool IsWrong(uint8_t code) {
  if constexpr (kKind == CodeKind::kFp8E4M3) return IsE4M3Nan(code);
  return code >> CodeBits(kKind) != 0;
}

template <CodeKind kKind>
absl::Status CheckCodes(const QuantizedMatrix& matrix) {
  bool has_wrong = false;
  for (const uint8_t code : matrix.codes) has_wrong |= IsWrong<kKind>(code);
  if (!has_wrong) return absl::OkStatus();
  const int64_t index =
      std::find_if(matrix.codes.begin(), matrix.codes.end(), IsWrong<kKind>) - matrix.codes.begin();
  return InvalidArgument("column {} of row {} has the code {}, which its kind of codes lacks",
                         index % matrix.k, index / matrix.k,
                         int{matrix.codes[static_cast<size_t>(index)]});
}

template <typename T>
void StoreAt(T value, std::byte* part, int64_t index) {
  std::memcpy(part + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Writes into a panel of zeros.
class PanelPacker {
 public:
  PanelPacker(const QuantizedMatrix& matrix, const PanelLayout& layout, std::byte* panel)
      : matrix_(matrix), layout_(layout), panel_(panel) {}

  template <CodeKind kKind>
  void Pack(int64_t first_row) const {
    const int64_t num_outputs = std::min(kPanelOutputs, matrix_.n - first_row);
    for (int64_t step = 0; step < layout_.num_steps; ++step) {
      for (int64_t output = 0; output < num_outputs; ++output) {
        PackStep<kKind>(first_row + output, step, output);
      }
    }
    for (int64_t group = 0; group < layout_.num_groups; ++group) {
      for (int64_t output = 0; output < num_outputs; ++output) {
        PackGroup(first_row + output, group, group * kPanelOutputs + output);
      }
    }
    for (int64_t block = 0; block < layout_.num_blocks; ++block) {
      for (int64_t output = 0; output < num_outputs; ++output) {
        PackBlock(first_row + output, block, block * kPanelOutputs + output);
      }
    }
  }

 private:
  template <CodeKind kKind>
  void PackStep(int64_t row, int64_t step, int64_t output) const {
    constexpr int kColumns = StepColumns(kKind);
    const int64_t first_column = step * kColumns;
    const uint8_t* codes = matrix_.codes.data() + row * matrix_.k + first_column;
    uint8_t last_codes[kColumns] = {};
    if (first_column + kColumns > matrix_.k) {
      std::copy(codes, codes + matrix_.k - first_column, last_codes);
      codes = last_codes;
    }
    for (const int parity : {0, 1}) {
      PackWord<kKind>(codes + parity, parity * kPanelOutputs + output,
                      panel_ + step * StepBytes(kKind));
    }
  }

  // Every second code of a step.
  template <CodeKind kKind>
  static void PackWord(const uint8_t* codes, int64_t place, std::byte* step) {
    constexpr int kBits = CodeBits(kKind);
    constexpr int kLowBits = kBits == 8 ? 8 : 4;
    uint32_t low = 0;
    uint32_t high = 0;
    for (int i = 0; i < StepColumns(kKind) / 2; ++i) {
      const uint32_t code = codes[2 * i];
      low |= (code & ((1u << kLowBits) - 1)) << (kLowBits * i);
      high |= code >> kLowBits << ((kBits - kLowBits) * i);
    }
    std::byte* const high_bits = step + StepWordBytes(kKind);
    if constexpr (WordBytes(kKind) == 2) return StoreAt(static_cast<uint16_t>(low), step, place);
    StoreAt(low, step, place);
    if constexpr (kBits == 5) StoreAt(static_cast<uint8_t>(high), high_bits, place);
    if constexpr (kBits == 6) StoreAt(static_cast<uint16_t>(high), high_bits, place);
  }

  void PackGroup(int64_t row, int64_t group, int64_t place) const {
    const auto index = static_cast<size_t>(row * layout_.num_groups + group);
    float scale = matrix_.scales[index];
    float minimum = layout_.has_minima ? matrix_.minima[index] : 0.0f;
    if (matrix_.has_two_levels() && layout_.block_columns == 0) {
      const GroupScales product = ScalesOfGroup(matrix_, row, group);
      scale = product.scale;
      minimum = product.minimum;
    }
    PackScale(scale, place, panel_ + layout_.scale_offset);
    if (layout_.has_minima) PackScale(minimum, place, panel_ + layout_.minimum_offset);
    if (layout_.has_zeros) StoreAt(matrix_.zeros[index], panel_ + layout_.zero_offset, place);
  }

  void PackScale(float scale, int64_t place, std::byte* part) const {
    switch (layout_.scales) {
      case PanelScales::kFloat32:
        return StoreAt(scale, part, place);
      case PanelScales::kFloat16:
        return StoreAt(TruncateToFloat16(scale), part, place);
      case PanelScales::kBFloat16:
        return StoreAt(ToBFloat16(scale), part, place);
      case PanelScales::kBytes:
        return StoreAt(static_cast<uint8_t>(scale), part, place);
      case PanelScales::kSignedBytes:
        return StoreAt(static_cast<int8_t>(scale), part, place);
    }
  }

  void PackBlock(int64_t row, int64_t block, int64_t place) const {
    const auto index = static_cast<size_t>(row * layout_.num_blocks + block);
    StoreAt(TruncateToFloat16(matrix_.block_scales[index]), panel_ + layout_.block_scale_offset,
            place);
    if (!layout_.has_minima) return;
    StoreAt(TruncateToFloat16(matrix_.block_minima[index]), panel_ + layout_.block_minimum_offset,
            place);
  }

  const QuantizedMatrix& matrix_;
  const PanelLayout& layout_;
  std::byte* const panel_;
};

template <CodeKind kKind>
absl::Status PackInto(const QuantizedMatrix& matrix, PackedPanels* packed) {
  LOCKSTEP_RETURN_IF_ERROR(CheckCodes<kKind>(matrix));
  PanelMatrix& panels = packed->matrix;
  panels.layout = ChoosePanelLayout(matrix);
  const int64_t num_lines = NumBytes(panels) / static_cast<int64_t>(sizeof(PanelLine));
  packed->storage.resize(static_cast<size_t>(num_lines));
  auto* const bytes = reinterpret_cast<std::byte*>(packed->storage.data());
  for (int64_t panel = 0; panel < NumPanels(matrix.n); ++panel) {
    PanelPacker(matrix, panels.layout, bytes + panel * panels.layout.panel_bytes)
        .Pack<kKind>(panel * kPanelOutputs);
  }
  panels.data = bytes;
  return absl::OkStatus();
}

}  // namespace

int64_t NumBytes(const PanelMatrix& matrix) {
  return NumPanels(matrix.n) * matrix.layout.panel_bytes;
}

absl::StatusOr<PackedPanels> PackPanels(const QuantizedMatrix& matrix) {
  if (matrix.k % 2 != 0) return InvalidArgument("panels: k must be even, got {}", matrix.k);
  if (!matrix.has_contiguous_groups()) {
    return InvalidArgument("groups whose columns are not neighbours; panels have none of them");
  }
  PackedPanels packed;
  packed.matrix.n = matrix.n;
  packed.matrix.k = matrix.k;
  LOCKSTEP_RETURN_IF_ERROR(WithCodeKind(
      matrix.kind, [&](auto kind) { return PackInto<decltype(kind)::kKind>(matrix, &packed); }));
  return packed;
}

}  // namespace lockstep::kernels
