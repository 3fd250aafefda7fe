// The promise of docs/numerics.md, tested: a request gives the same bits alone and under any
// schedule. The planted build of this file (LOCKSTEP_EXPECT_DIFFERENCES) links a GEMM that splits K
// when M is small and must see differences: it proves that the test can fail.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>

#include "common/model_files/model_family.h"
#include "kernels/core/instruction_set.h"
#include "kernels/kv_cache/kv_type.h"
#include "tests/common/temp_folder.h"
#include "tests/integration/invariance/invariance_check.h"
#include "tests/worker/model/plain_pebble.h"
#include "tests/worker/model/toy_family.h"

namespace lockstep::testing {
namespace {

// tests/golden/NAME with a context of `max_context_tokens`: rotary embeddings go on for ever.
std::string WithLongContext(const std::string& name, uint32_t max_context_tokens) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                       (name + (kExpectDifferences ? "-long-planted" : "-long"));
  std::filesystem::remove_all(folder);
  std::filesystem::copy("tests/golden/" + name, folder);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  config["max_position_embeddings"] = max_context_tokens;
  std::ofstream(folder / "config.json") << config;
  return folder;
}

// Prompts past three attention borders (every 1,024 keys), next to short ones.
TEST(ScheduleInvariance, AcrossAttentionBorders) {
  ModelCase long_context = TinyCase("tiny-qwen3");
  long_context.path = WithLongContext("tiny-qwen3", 4096);
  long_context.shape.num_requests = 60;
  long_context.shape.num_long_requests = 6;
  long_context.shape.long_prompt_tokens = 3100;
  long_context.min_blocks = 210;
  long_context.num_restarts = 1;
  long_context.expect_pressure = false;
  CheckInvariance(long_context, kExpectDifferences);
}

TEST(ScheduleInvariance, TinyLlama) { CheckInvariance(TinyCase("tiny-llama"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyQwen2) { CheckInvariance(TinyCase("tiny-qwen2"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyGpt2) { CheckInvariance(TinyCase("tiny-gpt2"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyQwen3) { CheckInvariance(TinyCase("tiny-qwen3"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyQwen3WithAWindow) {
  CheckInvariance(TinyCase("tiny-qwen3-window"), kExpectDifferences);
}

// The toy family: layers of two kinds in two KV groups, one with a window of 32. Its requests also
// fail over from a worker of one rank to a worker of two, which has pools of its own.
class ScheduleInvariancePebble
    : public ::testing::TestWithParam<std::tuple<kernels::InstructionSet, kernels::KvType>> {
 protected:
  static void SetUpTestSuite() { RegisterModelFamily(worker::PebbleFamily()); }
};

TEST_P(ScheduleInvariancePebble, With) {
  const TempFolder folder;
  worker::WritePebbleCheckpoint(folder);
  ModelCase pebble = TinyCase("pebble");
  pebble.path = folder.path();
  pebble.instruction_set = std::get<kernels::InstructionSet>(GetParam());
  pebble.kv_type = std::get<kernels::KvType>(GetParam());
  pebble.degrees = {1, 2};
  CheckInvariance(pebble, kExpectDifferences);
}

INSTANTIATE_TEST_SUITE_P(
    InstructionSets, ScheduleInvariancePebble,
    ::testing::Combine(::testing::ValuesIn(kernels::AvailableInstructionSets().begin(),
                                           kernels::AvailableInstructionSets().end()),
                       ::testing::Values(kernels::KvType::kBFloat16, kernels::KvType::kFp8)),
    [](const auto& info) {
      const std::string_view set =
          kernels::InstructionSetName(std::get<kernels::InstructionSet>(info.param));
      const bool is_fp8 = std::get<kernels::KvType>(info.param) == kernels::KvType::kFp8;
      return std::string(set) + (is_fp8 ? "_fp8_kv" : "");
    });

}  // namespace
}  // namespace lockstep::testing
