#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/quant/finite.h"

namespace lockstep::kernels {
namespace {

// Adding this to a magnitude carries into the sign bit exactly if the value is not finite as bf16.
// fp32: from half a unit in the last place above the largest bf16 on.
constexpr uint32_t kFloatCarry = 0x80000000u - 0x7F7F8000u;
constexpr uint16_t kBFloat16Carry = 0x8000u - 0x7F80u;

// Bit 31 or 15 is set exactly if the value is not finite as bf16.
uint32_t Judge(float value) { return (std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu) + kFloatCarry; }
uint16_t Judge(BFloat16 value) {
  return static_cast<uint16_t>((value.bits & 0x7FFFu) + kBFloat16Carry);
}

template <typename T>
size_t Find(std::span<const T> values) {
  using Bits = decltype(Judge(T()));
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  // gcc makes vector instructions of a loop without an exit, unless it copies a struct.
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    Bits all = 0;
    for (const T& value : block) all |= Judge(value);
    if ((all & kSign) == 0) continue;
    const auto place = std::find_if(block.begin(), block.end(),
                                    [](T value) { return (Judge(value) & kSign) != 0; });
    return begin + static_cast<size_t>(place - block.begin());
  }
  return values.size();
}

}  // namespace

size_t FindNotFinite(std::span<const float> values) { return Find(values); }
size_t FindNotFinite(std::span<const BFloat16> values) { return Find(values); }

}  // namespace lockstep::kernels
