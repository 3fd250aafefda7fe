#include "kernels/formats/strips/choose_strip_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/strips/choose_fp4_codec.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

// Times 2^16 it is a number of fp32.
bool IsSmallBFloat16(float value) { return IsBFloat16(value) && std::fabs(value) < 0x1p100f; }
bool IsUnsignedByte(float value) {
  return value >= 0 && value <= 255 && value == std::floor(value);
}
bool IsSignedByte(float value) {
  return value >= -128 && value <= 127 && value == std::floor(value);
}

// What a codec can store, with its name for errors.
struct Storage {
  bool (*holds)(float value);
  std::string_view name;
};
constexpr Storage kInFloat16 = {IsFloat16, "fp16"};
constexpr Storage kInBFloat16 = {IsBFloat16, "bf16"};
constexpr Storage kInSmallBFloat16 = {IsSmallBFloat16, "bf16 below 2^100"};
constexpr Storage kInUnsignedByte = {IsUnsignedByte, "a byte"};
constexpr Storage kInSignedByte = {IsSignedByte, "a signed byte"};

// `values`: `per_row` of each row, of what `part` says.
absl::Status CheckStored(const std::vector<float>& values, int64_t per_row, std::string_view what,
                         std::string_view part, const Storage& storage) {
  const auto lossy = std::find_if_not(values.begin(), values.end(), storage.holds);
  if (lossy == values.end()) return absl::OkStatus();
  const int64_t index = lossy - values.begin();
  return InvalidArgument("the {} {} of {} {} of row {} has no exact value in {}", what, *lossy,
                         part, index % per_row, index / per_row, storage.name);
}

absl::Status CheckScales(const QuantizedMatrix& matrix, const Storage& storage) {
  return CheckStored(matrix.scales, matrix.num_groups(), "scale", "group", storage);
}
absl::Status CheckMinima(const QuantizedMatrix& matrix, const Storage& storage) {
  return CheckStored(matrix.minima, matrix.num_groups(), "minimum", "group", storage);
}

bool IsOneGroup(const QuantizedMatrix& matrix) { return matrix.group_columns >= matrix.k; }
bool HasGroupsOf128(const QuantizedMatrix& matrix) {
  return IsOneGroup(matrix) || matrix.group_columns % 128 == 0;
}

// All codecs but those of Q6_K and NVFP4 have groups of 32 or 128 columns.
absl::Status CheckGroups(const QuantizedMatrix& matrix) {
  if (!matrix.has_contiguous_groups()) {
    return InvalidArgument(
        "groups whose columns are not neighbours; the kernels have none for them");
  }
  const bool is_nvfp4 = matrix.kind == CodeKind::kFp4E2M1 && matrix.has_two_levels();
  const int64_t multiple = matrix.kind == CodeKind::kInt6 || is_nvfp4 ? 16 : 32;
  if (!IsOneGroup(matrix) && matrix.group_columns % multiple != 0) {
    return InvalidArgument("groups of {} columns; the kernels take multiples of {}",
                           matrix.group_columns, multiple);
  }
  return absl::OkStatus();
}

absl::StatusOr<StripCodec> ChooseInt4(const QuantizedMatrix& matrix) {
  const bool of_128 = HasGroupsOf128(matrix);
  if (!matrix.zeros.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInBFloat16));
    return of_128 ? StripCodec::kInt4Group128Zeros : StripCodec::kInt4Group32Zeros;
  }
  const bool all_bfloat16 = std::all_of(matrix.scales.begin(), matrix.scales.end(), IsBFloat16);
  if (all_bfloat16) return of_128 ? StripCodec::kInt4Group128 : StripCodec::kInt4Group32;
  if (std::all_of(matrix.scales.begin(), matrix.scales.end(), IsFloat16)) return StripCodec::kQ4_0;
  return CheckScales(matrix, kInBFloat16);
}

absl::StatusOr<StripCodec> ChooseWithMinima(const QuantizedMatrix& matrix) {
  const bool is_4_bits = matrix.kind == CodeKind::kInt4Min;
  // A column beyond the matrix must be 0, and so must not share a minimum with others.
  if (matrix.k % 32 != 0) {
    return InvalidArgument("{} columns with minima; the kernels take multiples of 32", matrix.k);
  }
  if (!matrix.has_two_levels()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInFloat16));
    LOCKSTEP_RETURN_IF_ERROR(CheckMinima(matrix, kInFloat16));
    return is_4_bits ? StripCodec::kQ4_1 : StripCodec::kQ5_1;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInUnsignedByte));
  LOCKSTEP_RETURN_IF_ERROR(CheckMinima(matrix, kInUnsignedByte));
  return is_4_bits ? StripCodec::kQ4_K : StripCodec::kQ5_K;
}

absl::StatusOr<StripCodec> ChooseInt8(const QuantizedMatrix& matrix) {
  const bool of_128 = HasGroupsOf128(matrix);
  const bool all_float16 = std::all_of(matrix.scales.begin(), matrix.scales.end(), IsFloat16);
  if (matrix.zeros.empty() && all_float16) {
    return of_128 ? StripCodec::kInt8Group128 : StripCodec::kInt8Group32;
  }
  // Scales of bf16 that fp16 does not hold: with zero points in the middle.
  LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInSmallBFloat16));
  return of_128 ? StripCodec::kInt8Group128Zeros : StripCodec::kInt8Group32Zeros;
}

absl::StatusOr<StripCodec> ChooseFp8(const QuantizedMatrix& matrix) {
  if (HasGroupsOf128(matrix)) return StripCodec::kFp8Group128;
  return InvalidArgument("fp8 with groups of {} columns; the kernels take multiples of 128",
                         matrix.group_columns);
}

absl::Status CheckLevels(const QuantizedMatrix& matrix) {
  const bool needs_two = matrix.kind == CodeKind::kInt6;
  const bool takes_two = needs_two || HasMinimum(matrix.kind);
  if (matrix.has_two_levels() ? !takes_two : needs_two) {
    return InvalidArgument("{}-bit codes with scales of {}; the kernels have none for them",
                           CodeBits(matrix.kind),
                           matrix.has_two_levels() ? "two levels" : "one level");
  }
  if (!matrix.has_two_levels()) return absl::OkStatus();
  if (matrix.block_columns % kStripBlockColumns != 0) {
    return InvalidArgument("scales of blocks of {} columns; the kernels take multiples of {}",
                           matrix.block_columns, kStripBlockColumns);
  }
  const int64_t per_row = matrix.num_scale_blocks();
  LOCKSTEP_RETURN_IF_ERROR(CheckStored(matrix.block_scales, per_row, "scale", "block", kInFloat16));
  return CheckStored(matrix.block_minima, per_row, "minimum", "block", kInFloat16);
}

}  // namespace

absl::StatusOr<StripCodec> ChooseStripCodec(const QuantizedMatrix& matrix) {
  LOCKSTEP_RETURN_IF_ERROR(CheckGroups(matrix));
  if (matrix.kind == CodeKind::kFp4E2M1) return ChooseFp4Codec(matrix);
  LOCKSTEP_RETURN_IF_ERROR(CheckLevels(matrix));
  switch (matrix.kind) {
    case CodeKind::kInt4:
      return ChooseInt4(matrix);
    case CodeKind::kInt4Min:
    case CodeKind::kInt5Min:
      return ChooseWithMinima(matrix);
    case CodeKind::kInt5:
      LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInFloat16));
      return StripCodec::kQ5_0;
    case CodeKind::kInt6:
      LOCKSTEP_RETURN_IF_ERROR(CheckScales(matrix, kInSignedByte));
      return StripCodec::kQ6_K;
    case CodeKind::kInt8:
      return ChooseInt8(matrix);
    default:
      return ChooseFp8(matrix);
  }
}

}  // namespace lockstep::kernels
