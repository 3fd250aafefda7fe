#include <algorithm>
#include <cstring>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/panels/choose_panel_layout.h"
#include "kernels/formats/panels/panel_matrix.h"
#include "kernels/formats/small_floats.h"
#include "kernels/gemm/packed_matrix.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

absl::Status CheckCodes(const QuantizedMatrix& matrix) {
  const int bits = CodeBits(matrix.kind);
  const auto is_wrong = [&](uint8_t code) {
    return code >> bits != 0 || (matrix.kind == CodeKind::kFp8E4M3 && IsE4M3Nan(code));
  };
  const auto wrong = std::find_if(matrix.codes.begin(), matrix.codes.end(), is_wrong);
  if (wrong == matrix.codes.end()) return absl::OkStatus();
  const int64_t index = wrong - matrix.codes.begin();
  return InvalidArgument("column {} of row {} has the code {}, which its kind of codes lacks",
                         index % matrix.k, index / matrix.k, int{*wrong});
}

template <typename T>
void StoreAt(T value, std::byte* part, int64_t index) {
  std::memcpy(part + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Writes into panels of zeros.
class PanelPacker {
 public:
  PanelPacker(const QuantizedMatrix& matrix, const PanelLayout& layout)
      : matrix_(matrix), layout_(layout), bits_(CodeBits(matrix.kind)) {}

  void PackRow(int64_t row, std::byte* panel) const {
    const int64_t output = row % kPanelOutputs;
    const uint8_t* const codes = matrix_.codes.data() + row * matrix_.k;
    const int64_t step_columns = StepColumns(matrix_.kind);
    for (int64_t step = 0; step < layout_.num_steps; ++step) {
      for (const int parity : {0, 1}) {
        const int64_t first = step * step_columns + parity;
        const int64_t end = std::min((step + 1) * step_columns, matrix_.k);
        PackWord(codes + first, (end - first + 1) / 2, parity * kPanelOutputs + output,
                 panel + step * StepBytes(matrix_.kind));
      }
    }
    for (int64_t group = 0; group < layout_.num_groups; ++group) {
      PackGroup(row, group, group * kPanelOutputs + output, panel);
    }
    for (int64_t block = 0; block < layout_.num_blocks; ++block) {
      PackBlock(static_cast<size_t>(row * layout_.num_blocks + block),
                block * kPanelOutputs + output, panel);
    }
  }

 private:
  // Every second code, `count` of them.
  void PackWord(const uint8_t* codes, int64_t count, int64_t place, std::byte* step) const {
    const int low_bits = bits_ == 8 ? 8 : 4;
    uint32_t low = 0;
    uint32_t high = 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t code = codes[2 * i];
      low |= (code & ((1u << low_bits) - 1)) << (low_bits * i);
      if (bits_ != 8) high |= code >> 4 << ((bits_ - 4) * i);
    }
    if (WordBytes(matrix_.kind) == 2) return StoreAt(static_cast<uint16_t>(low), step, place);
    StoreAt(low, step, place);
    std::byte* const high_bits = step + StepWordBytes(matrix_.kind);
    if (bits_ == 5) StoreAt(static_cast<uint8_t>(high), high_bits, place);
    if (bits_ == 6) StoreAt(static_cast<uint16_t>(high), high_bits, place);
  }

  void PackGroup(int64_t row, int64_t group, int64_t place, std::byte* panel) const {
    const auto index = static_cast<size_t>(row * layout_.num_groups + group);
    float scale = matrix_.scales[index];
    float minimum = layout_.has_minima ? matrix_.minima[index] : 0.0f;
    if (matrix_.has_two_levels() && layout_.block_columns == 0) {
      const GroupScales product = ScalesOfGroup(matrix_, row, group);
      scale = product.scale;
      minimum = product.minimum;
    }
    PackScale(scale, place, panel + layout_.scale_offset);
    if (layout_.has_minima) PackScale(minimum, place, panel + layout_.minimum_offset);
    if (layout_.has_zeros) StoreAt(matrix_.zeros[index], panel + layout_.zero_offset, place);
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

  void PackBlock(size_t index, int64_t place, std::byte* panel) const {
    StoreAt(TruncateToFloat16(matrix_.block_scales[index]), panel + layout_.block_scale_offset,
            place);
    if (!layout_.has_minima) return;
    StoreAt(TruncateToFloat16(matrix_.block_minima[index]), panel + layout_.block_minimum_offset,
            place);
  }

  const QuantizedMatrix& matrix_;
  const PanelLayout& layout_;
  const int bits_;
};

}  // namespace

int64_t NumBytes(const PanelMatrix& matrix) {
  return NumPanels(matrix.n) * matrix.layout.panel_bytes;
}

absl::StatusOr<PackedPanels> PackPanels(const QuantizedMatrix& matrix) {
  if (matrix.k % 2 != 0) return InvalidArgument("panels: k must be even, got {}", matrix.k);
  if (!matrix.has_contiguous_groups()) {
    return InvalidArgument("groups whose columns are not neighbours; panels have none of them");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckCodes(matrix));
  PackedPanels packed;
  PanelMatrix& panels = packed.matrix;
  panels.n = matrix.n;
  panels.k = matrix.k;
  panels.layout = ChoosePanelLayout(matrix);
  const int64_t num_lines = NumBytes(panels) / static_cast<int64_t>(sizeof(PanelLine));
  packed.storage.resize(static_cast<size_t>(num_lines));
  auto* const bytes = reinterpret_cast<std::byte*>(packed.storage.data());
  const PanelPacker packer(matrix, panels.layout);
  for (int64_t row = 0; row < matrix.n; ++row) {
    packer.PackRow(row, bytes + row / kPanelOutputs * panels.layout.panel_bytes);
  }
  panels.data = bytes;
  return packed;
}

}  // namespace lockstep::kernels
