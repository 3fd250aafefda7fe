#include <bit>

#include "kernels/formats/panels/wide_dot.h"

// Bits of vdpbf16ps are described by its makers as DotWide computes them. Whether a processor does
// so is seen by trying.
namespace lockstep::kernels::LOCKSTEP_ISA {
#if LOCKSTEP_ISA_LEVEL == 2
namespace {

constexpr int kTrials = 2000;

// xorshift64
class Random {
 public:
  uint32_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15;
};

// The exponent of fp32 or bf16, as far as `spread` from the middle.
uint32_t WithExponent(uint32_t bits, uint32_t random, uint32_t spread) {
  return (bits & 0x807FFFFFu) | (127 - spread + random % (2 * spread)) << 23;
}

struct Operands {
  BFloat16 weights[2 * kLanes];
  BFloat16 input[2];
  float sums[kLanes];
};

Operands RandomOperands(Random& random, uint32_t spread) {
  Operands operands;
  const auto bf16 = [&] {
    return BFloat16{
        static_cast<uint16_t>(WithExponent(random.Next(), random.Next(), spread) >> 16)};
  };
  for (BFloat16& weight : operands.weights) weight = bf16();
  for (BFloat16& value : operands.input) value = bf16();
  for (float& sum : operands.sums) {
    sum = std::bit_cast<float>(WithExponent(random.Next(), random.Next(), spread));
  }
  return operands;
}

[[gnu::noinline]] void ComputeWide(const Operands& operands, float* result) {
  float columns[2][kLanes];
  for (int i = 0; i < kLanes; ++i) {
    columns[0][i] = ToFloat(operands.weights[2 * i]);
    columns[1][i] = ToFloat(operands.weights[2 * i + 1]);
  }
  const WidePairs weights[1] = {{Load(columns[0]), Load(columns[1])}};
  F32x16 sums[1] = {Load(operands.sums)};
  DotWide(weights, ToFloat(operands.input[0]), ToFloat(operands.input[1]), sums);
  Store(sums[0], result);
}

bool IsExact() {
  Random random;
  for (int trial = 0; trial < kTrials; ++trial) {
    // Sums of numbers of one size cancel; the others come near the limits of fp32.
    const Operands operands = RandomOperands(random, trial % 4 == 0 ? 62 : 6);
    float expected[kLanes];
    Store(DotPairs(LoadPairs(operands.weights), BroadcastPair(operands.input), Load(operands.sums)),
          expected);
    float actual[kLanes];
    {
      const FlushSubnormals flush;
      ComputeWide(operands, actual);
    }
    for (int i = 0; i < kLanes; ++i) {
      if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(expected[i])) return false;
    }
  }
  return true;
}

}  // namespace

bool WideIsExact() {
  static const bool is_exact = IsExact();
  return is_exact;
}

#else

bool WideIsExact() { return LOCKSTEP_ISA_LEVEL == 1; }

#endif
}  // namespace lockstep::kernels::LOCKSTEP_ISA
