#pragma once

#include <cstdint>

// How packed weights are stored on the GPU: what a block of 128 columns of 8 rows holds
// (kernels/formats/strips/strip_matrix.h says how blocks make a matrix).
//
// A block begins with codes, in the order in which a warp's lanes need them as the left operand of
// m16n8k16 (kernels/core/ptx/mma.cuh). With g = lane / 4 and t = lane % 4, a lane has of each step
// of 16 columns of row g the pair 0, columns 2t and 2t + 1, and the pair 1, columns 2t + 8 and
// 2t + 9. Its 16 bytes of several steps lie side by side: [16-byte parts of a block][32 lanes].
//   4 bits: a word has 2 steps. Pair i of step j has bits 4 * (2j + i) and 16 + 4 * (2j + i).
//     Of FP4 the bits of a code lie apart (kernels/formats/strips/fp4/fp4_weights.h).
//   8 bits: a word has a step. Pair i has bytes 2i and 2i + 1.
//   5 bits: the low 4 bits as above, then a word of each lane for the fifth bits of its 8 steps.
//     Pair i of step j has bits b and 16 + b with b = 8 * (j / 4) + j % 4 + 4i.
//   6 bits: the low 4 bits as above, then two words of each lane, each for the high bits of 4
//   steps.
//     Pair i of step j of them has bits b, b + 1 and 16 + b, 17 + b with
//     b = 8 * (j / 2) + 2 * (j % 2) + 4i.
// Scales follow.
//   Types of GGUF: [8 rows][groups of a row][the scale, then the minimum if there is one]. With two
//     levels these are bytes, signed scales of Q6_K plus 128, and [8 rows][d, then dmin if there is
//     one] in fp16 follow: every block has those of the 256 columns that it is in.
//   MXFP4: [8 rows][4 groups], E8M0.
//   NVFP4: [8 rows][4][2], a byte for a group, with the groups i and i + 4 side by side
//     (kernels/formats/strips/fp4/nvfp4_rows.h). A negative scale changes the signs of the codes
//     instead. A scale of zero makes the codes zero.
//   Other codecs: [groups][8 rows], then zero points in the same order.
namespace lockstep::kernels {

inline constexpr int kStripRows = 8;
inline constexpr int kStripBlockColumns = 128;

enum class StripCodec {
  kInt4Group128,       // scales in bf16
  kInt4Group128Zeros,  // the same; zero points as 128 + z in bf16
  kInt4Group32,
  kInt4Group32Zeros,
  kInt8Group128,  // scales in fp16; codes of u. Groups of 32 are also Q8_0
  kInt8Group32,
  kInt8Group128Zeros,  // scales in bf16; zero points as integers of 16 bits
  kInt8Group32Zeros,
  kFp8Group128,  // scales in fp32
  // Types of GGUF, whose scales and minima are in fp16.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxfp4,
  kNvfp4,
};

enum class StripScales {
  kBFloat16,
  kFloat16,
  kFloat32,
  kByte,   // of two levels: integers, and a scale in fp16 that multiplies those of the block
  kE8M0,   // of MXFP4
  kNvfp4,  // a significand and an exponent. A table behind all blocks says what they mean in a row
};

struct StripCodecShape {
  int code_bits;
  int group_columns;
  StripScales scales;
  bool has_zeros = false;
  bool has_minima = false;
  bool is_gguf = false;  // [8 rows][groups]

  constexpr bool has_two_levels() const { return scales == StripScales::kByte; }
  constexpr bool is_fp4() const {
    return scales == StripScales::kE8M0 || scales == StripScales::kNvfp4;
  }
  constexpr int num_groups() const { return kStripBlockColumns / group_columns; }
  constexpr int scale_bytes() const {
    if (scales == StripScales::kFloat32) return 4;
    return scales == StripScales::kByte || is_fp4() ? 1 : 2;
  }
  // Parts of a block, in bytes.
  constexpr int low_bytes() const {  // of the codes, without the high bits
    return kStripRows * kStripBlockColumns * (code_bits == 8 ? 8 : 4) / 8;
  }
  constexpr int code_bytes() const { return kStripRows * kStripBlockColumns * code_bits / 8; }
  constexpr int group_bytes() const {  // scales, minima and zero points of all groups
    const int minimum_bytes = has_minima ? scale_bytes() : 0;
    const int zero_bytes = has_zeros ? 2 : 0;
    return kStripRows * num_groups() * (scale_bytes() + minimum_bytes + zero_bytes);
  }
  constexpr int second_level_bytes() const {
    return has_two_levels() ? kStripRows * (has_minima ? 4 : 2) : 0;
  }
  constexpr int block_bytes() const { return code_bytes() + group_bytes() + second_level_bytes(); }
  // Behind all blocks, of each row of all strips.
  constexpr int row_bytes() const { return scales == StripScales::kNvfp4 ? 20 : 0; }
};

StripCodecShape ShapeOfStripCodec(StripCodec codec);
inline int64_t StripBlockBytes(StripCodec codec) { return ShapeOfStripCodec(codec).block_bytes(); }
const char* StripCodecName(StripCodec codec);

// The place in a block of the code of (row, column).
struct StripCodePlace {
  int byte;  // of the code, or of its low 4 bits
  int shift;
  int high_byte = 0;  // of the other bits, of codes of 5 and 6 bits
  int high_shift = 0;
};
StripCodePlace PlaceOfStripCode(const StripCodecShape& shape, int row, int column);

// The same of FP4, of one of the four bits of a code.
struct Fp4BitPlace {
  int byte;
  int shift;
};
Fp4BitPlace PlaceOfFp4Bit(int row, int column, int bit);

}  // namespace lockstep::kernels
