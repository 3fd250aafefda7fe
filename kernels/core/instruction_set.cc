#include "kernels/core/instruction_set.h"

#include <array>

namespace lockstep::kernels {
namespace {

constexpr std::array kOrdered = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                 InstructionSet::kAvx512Bf16};

// How many of kOrdered can run here. Each set needs everything that the sets before it need.
size_t CountAvailable() {
#if defined(LOCKSTEP_X86_KERNELS)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return 1;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bf16")) {
    return 2;
  }
  return 3;
#else
  return 1;
#endif
}

}  // namespace

std::string_view InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

std::optional<InstructionSet> ParseInstructionSet(std::string_view name) {
  for (const InstructionSet set : kOrdered) {
    if (InstructionSetName(set) == name) return set;
  }
  return std::nullopt;
}

std::span<const InstructionSet> AvailableInstructionSets() {
  return std::span(kOrdered).first(CountAvailable());
}

InstructionSet BestInstructionSet() { return AvailableInstructionSets().back(); }

}  // namespace lockstep::kernels
