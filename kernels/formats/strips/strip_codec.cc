#include "kernels/formats/strips/strip_codec.h"

#include "common/check.h"
#include "kernels/formats/strips/fp4/fp4_weights.h"

namespace lockstep::kernels {
namespace {

constexpr StripCodecShape GgufShape(int code_bits, StripScales scales, bool has_minima,
                                    int group_columns = 32) {
  return {.code_bits = code_bits,
          .group_columns = group_columns,
          .scales = scales,
          .has_minima = has_minima,
          .is_gguf = true};
}

// The lane that has a code, the pair of the step, and the code's place in the pair (0 or 1).
struct StepPlace {
  int step;
  int lane;
  int pair;
  int second;
};
StepPlace PlaceInStep(int row, int column) {
  const int in_step = column % 16;
  return {.step = column / 16,
          .lane = row * 4 + in_step % 8 / 2,
          .pair = in_step / 8,
          .second = in_step % 2};
}

}  // namespace

StripCodecShape ShapeOfStripCodec(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
      return {4, 128, StripScales::kBFloat16};
    case StripCodec::kInt4Group128Zeros:
      return {4, 128, StripScales::kBFloat16, true};
    case StripCodec::kInt4Group32:
      return {4, 32, StripScales::kBFloat16};
    case StripCodec::kInt4Group32Zeros:
      return {4, 32, StripScales::kBFloat16, true};
    case StripCodec::kInt8Group128:
      return {8, 128, StripScales::kFloat16};
    case StripCodec::kInt8Group32:
      return {8, 32, StripScales::kFloat16};
    case StripCodec::kInt8Group128Zeros:
      return {8, 128, StripScales::kBFloat16, true};
    case StripCodec::kInt8Group32Zeros:
      return {8, 32, StripScales::kBFloat16, true};
    case StripCodec::kFp8Group128:
      return {8, 128, StripScales::kFloat32};
    case StripCodec::kQ4_0:
      return GgufShape(4, StripScales::kFloat16, false);
    case StripCodec::kQ4_1:
      return GgufShape(4, StripScales::kFloat16, true);
    case StripCodec::kQ5_0:
      return GgufShape(5, StripScales::kFloat16, false);
    case StripCodec::kQ5_1:
      return GgufShape(5, StripScales::kFloat16, true);
    case StripCodec::kQ4_K:
      return GgufShape(4, StripScales::kByte, true);
    case StripCodec::kQ5_K:
      return GgufShape(5, StripScales::kByte, true);
    case StripCodec::kQ6_K:
      return GgufShape(6, StripScales::kByte, false, 16);
    case StripCodec::kMxfp4:
      return {4, 32, StripScales::kE8M0};
    case StripCodec::kNvfp4:
      return {4, 16, StripScales::kNvfp4};
  }
  LOCKSTEP_CHECK(false, "no such codec");
  return {};
}

const char* StripCodecName(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
      return "int4 g128";
    case StripCodec::kInt4Group128Zeros:
      return "int4 g128 with zero points";
    case StripCodec::kInt4Group32:
      return "int4 g32";
    case StripCodec::kInt4Group32Zeros:
      return "int4 g32 with zero points";
    case StripCodec::kInt8Group128:
      return "int8 g128";
    case StripCodec::kInt8Group32:
      return "int8 g32";
    case StripCodec::kInt8Group128Zeros:
      return "int8 g128 with zero points";
    case StripCodec::kInt8Group32Zeros:
      return "int8 g32 with zero points";
    case StripCodec::kFp8Group128:
      return "fp8 g128";
    case StripCodec::kQ4_0:
      return "Q4_0";
    case StripCodec::kQ4_1:
      return "Q4_1";
    case StripCodec::kQ5_0:
      return "Q5_0";
    case StripCodec::kQ5_1:
      return "Q5_1";
    case StripCodec::kQ4_K:
      return "Q4_K";
    case StripCodec::kQ5_K:
      return "Q5_K";
    case StripCodec::kQ6_K:
      return "Q6_K";
    case StripCodec::kMxfp4:
      return "MXFP4";
    case StripCodec::kNvfp4:
      return "NVFP4";
  }
  return "?";
}

StripCodePlace PlaceOfStripCode(const StripCodecShape& shape, int row, int column) {
  const auto [step, lane, pair, second] = PlaceInStep(row, column);
  if (shape.code_bits == 8) {
    return {.byte = (step / 4 * 32 + lane) * 16 + step % 4 * 4 + 2 * pair + second, .shift = 0};
  }
  const int bit = 4 * (step % 2 * 2 + pair) + 16 * second;
  StripCodePlace place = {.byte = (lane * 4 + step / 2) * 4 + bit / 8, .shift = bit % 8};
  const int high_bit = 4 * pair + 16 * second;
  if (shape.code_bits == 5) {
    const int at = 8 * (step / 4) + step % 4 + high_bit;
    place.high_byte = shape.low_bytes() + lane * 4 + at / 8;
    place.high_shift = at % 8;
  } else if (shape.code_bits == 6) {
    const int at = 8 * (step % 4 / 2) + 2 * (step % 2) + high_bit;
    place.high_byte = shape.low_bytes() + (lane * 2 + step / 4) * 4 + at / 8;
    place.high_shift = at % 8;
  }
  return place;
}

Fp4BitPlace PlaceOfFp4Bit(int row, int column, int bit) {
  const auto [step, lane, pair, second] = PlaceInStep(row, column);
  const int at = Fp4Bit(step % 2 * 2 + pair, second, bit);
  return {.byte = (lane * 4 + step / 2) * 4 + at / 8, .shift = at % 8};
}

}  // namespace lockstep::kernels
