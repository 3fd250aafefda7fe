// The first answer that a new user sees, on every instruction set of the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "common/runtime/mapped_file.h"
#include "kernels/core/instruction_set.h"
#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using nlohmann::json;

constexpr char kQuickstartModel[] = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";

// The question that the script asks unless it is told another one.
std::string QuestionOfQuickstart() {
  const absl::StatusOr<std::string> script = ReadTextFile("quickstart", 1 << 20);
  std::smatch match;
  if (!script.ok() || !std::regex_search(*script, match, std::regex("\nprompt=\"([^\"]+)\"\n"))) {
    ADD_FAILURE() << "quickstart has no default prompt: " << script.status();
    return "";
  }
  return match[1];
}

// How far the chosen token leads. Differences of log-probabilities are those of logits.
double Lead(const json& token) {
  std::vector<double> best;
  for (const json& candidate : token.at("top")) best.push_back(candidate.at("logprob"));
  std::ranges::sort(best, std::greater());
  EXPECT_EQ(best.at(0), token.at("logprob").get<double>()) << "greedy takes the best";
  return best.at(0) - best.at(1);
}

class QuickstartAnswerTest : public ProcessTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void Start(const std::string& instruction_set) {
    auto worker =
        LaunchWorker("127.0.0.1:0", kQuickstartModel,
                     {"--instruction-set=" + instruction_set, "--device=cpu", "--threads=0"});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_.emplace(*std::move(worker));
    ASSERT_NO_FATAL_FAILURE(StartRouter({std::string("--model=") + kQuickstartModel}));
  }
};

TEST_P(QuickstartAnswerTest, IsRightByAWideMargin) {
  const std::optional<kernels::InstructionSet> set = kernels::ParseInstructionSet(GetParam());
  ASSERT_TRUE(set.has_value()) << GetParam();
  if (!std::ranges::count(kernels::AvailableInstructionSets(), *set)) {
    GTEST_SKIP() << "this processor has no " << GetParam() << ": skipped";
  }
  ASSERT_NO_FATAL_FAILURE(Start(GetParam()));
  const Outcome outcome =
      RunShell(LOCKSTEP_BIN_DIR
               "/lockstep-generate --wait-seconds 60 --temperature 0 --max-tokens 512 "
               "--logprobs 2 --json --router " +
               router_->grpc_address() + " --chat 'user:" + QuestionOfQuickstart() + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const json output = json::parse(outcome.output).at("outputs").at(0);
  EXPECT_EQ(output.at("text"), "The capital city of Japan is Tokyo.");
  EXPECT_EQ(output.at("finish_reason"), "stop");
  for (const json& token : output.at("logprobs")) EXPECT_GE(Lead(token), 1.0) << token;
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, QuickstartAnswerTest,
                         ::testing::Values("portable", "avx2", "avx512_bf16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep::testing
