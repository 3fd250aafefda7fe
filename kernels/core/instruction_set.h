#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lockstep::kernels {

// The instruction sets that the CPU kernels are compiled for. GEMM and attention may give other
// bits on another set. On one set, bits never depend on the shape of the batch or the number of
// threads.
enum class InstructionSet { kPortable, kAvx2, kAvx512Bf16 };

std::string_view InstructionSetName(InstructionSet set);  // "portable", "avx2", "avx512_bf16"
// The inverse; none for any other text.
std::optional<InstructionSet> ParseInstructionSet(std::string_view name);

// Compiled in and present on this processor, worst first.
std::span<const InstructionSet> AvailableInstructionSets();

// The best one of those.
InstructionSet BestInstructionSet();

}  // namespace lockstep::kernels
