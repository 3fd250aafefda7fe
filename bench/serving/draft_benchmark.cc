#include "bench/serving/draft_benchmark.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "common/check.h"
#include "tests/rigs/quantile.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kFewTokens = 16;
constexpr uint32_t kManyTokens = 144;
constexpr uint32_t kMeasured = kManyTokens - kFewTokens;

using Texts = std::vector<std::vector<TokenId>>;

std::vector<Work> MakeWork(const Texts& prompts, uint32_t num_output_tokens) {
  std::vector<Work> work;
  for (const std::vector<TokenId>& prompt : prompts) {
    work.push_back({.prompt = prompt, .num_output_tokens = num_output_tokens});
  }
  return work;
}

struct Measurement {
  std::vector<double> ms_per_token;  // of a sequence
  double steps = 0.0;                // for the measured tokens, in the last repeat
  Texts outputs;                     // of the last repeat
};

Measurement Measure(Engine& engine, const Texts& prompts, int repeats) {
  Measurement result;
  for (int i = -1; i < repeats; ++i) {  // the first is the warm-up
    const double few = engine.Run(MakeWork(prompts, kFewTokens));
    const uint64_t few_steps = engine.last_times().num_steps;
    const double many = engine.Run(MakeWork(prompts, kManyTokens));
    result.steps = static_cast<double>(engine.last_times().num_steps - few_steps);
    if (i >= 0) result.ms_per_token.push_back((many - few) / kMeasured * 1e3);
  }
  result.outputs = engine.outputs();
  return result;
}

}  // namespace

std::optional<DraftCase> ParseDraftCase(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, absl::ByAnyChar(":x"));
  DraftCase result;
  const bool is_valid =
      parts.size() == 5 && parts[0] == "draft" && absl::SimpleAtoi(parts[1], &result.batch) &&
      absl::SimpleAtoi(parts[2], &result.context) &&
      absl::SimpleAtoi(parts[3], &result.max_drafts) &&
      absl::SimpleAtod(parts[4], &result.acceptance) && result.batch > 0 && result.context > 0 &&
      result.max_drafts > 0 && result.acceptance >= 0 && result.acceptance <= 1;
  return is_valid ? std::optional(result) : std::nullopt;
}

void MeasureDrafts(worker::StepRunner& runner, const worker::ForwardModelInfo& info,
                   const Engine::Options& options, const DraftCase& draft_case, int repeats) {
  std::mt19937_64 random(0);
  std::uniform_int_distribution<TokenId> any_token(0, info.vocab_size - 1);
  Texts prompts(draft_case.batch);
  for (std::vector<TokenId>& prompt : prompts) {
    while (prompt.size() < draft_case.context) prompt.push_back(any_token(random));
  }
  const Measurement plain = [&] {
    Engine engine(runner, info, options);
    return Measure(engine, prompts, repeats);
  }();

  Engine::Options with_drafts = options;
  with_drafts.max_draft_tokens = draft_case.max_drafts;
  std::bernoulli_distribution is_right(draft_case.acceptance);
  with_drafts.on_start = [&](size_t index, SlotId slot) {
    std::vector<TokenId> script = prompts[index];
    for (const TokenId token : plain.outputs[index]) {
      script.push_back(is_right(random) ? token : (token + 1) % info.vocab_size);
    }
    LOCKSTEP_CHECK(runner.SetDraftScript(slot, script), "this runner drafts by no script");
  };
  Engine engine(runner, info, with_drafts);
  const Measurement drafted = Measure(engine, prompts, repeats);
  LOCKSTEP_CHECK(drafted.outputs == plain.outputs, "drafts changed a text");

  const double plain_ms = Quantile(plain.ms_per_token, 0.5);
  const double drafted_ms = Quantile(drafted.ms_per_token, 0.5);
  // Tokens that a step keeps if drafts are right independently of one another.
  double expected = 0.0;
  for (uint32_t i = 0; i <= draft_case.max_drafts; ++i) {
    expected += std::pow(draft_case.acceptance, i);
  }
  std::printf(
      "{\"case\": \"draft:%ux%u:%u:%g\", \"unit\": \"ms/token\", \"median\": %.4f, \"values\": "
      "[%s], \"plain_median\": %.4f, \"plain_values\": [%s], \"speed_up\": %.3f, "
      "\"kept_per_step\": %.3f, \"expected_kept\": %.3f, \"matched\": true}\n",
      draft_case.batch, draft_case.context, draft_case.max_drafts, draft_case.acceptance,
      drafted_ms, fmt::format("{:.4f}", fmt::join(drafted.ms_per_token, ", ")).c_str(), plain_ms,
      fmt::format("{:.4f}", fmt::join(plain.ms_per_token, ", ")).c_str(), plain_ms / drafted_ms,
      kMeasured / drafted.steps, expected);
  std::fflush(stdout);
}

}  // namespace lockstep::bench
