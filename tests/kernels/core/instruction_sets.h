#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/instruction_set.h"

// Kernel tests run on every instruction set that this processor has.
namespace lockstep::kernels {

inline auto EveryInstructionSet() {
  const auto available = AvailableInstructionSets();
  return ::testing::ValuesIn(std::vector<InstructionSet>(available.begin(), available.end()));
}

inline std::string InstructionSetTestName(const ::testing::TestParamInfo<InstructionSet>& info) {
  return std::string(InstructionSetName(info.param));
}

}  // namespace lockstep::kernels
