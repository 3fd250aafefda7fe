// lockstep-load-simulate: the router's scheduler with a worker that computes nothing but
// takes the time of the Qwen3-8B shape on an H200, on a virtual clock. One JSON object a line for
// each load.
//
//   SxP+O      S streams in a closed loop, prompts of P and outputs of O tokens, both +- 50 %
//   E&SxP+O    the same beside E streams that decode for ever; gaps are of those
//   SxC+P+O    S streams whose prompts begin with one of 8 prefixes of C tokens; P more, O out
//   rate:RxP+O R requests a second at random times, with prompts and outputs as in the first
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "tests/rigs/load/load.h"
#include "tests/rigs/quantile.h"

ABSL_FLAG(std::vector<std::string>, loads,
          std::vector<std::string>({"128x512+128", "256x512+128", "64x4096+128", "64x2048+128+64",
                                    "32&2x8192+2", "rate:42x512+128"}),
          "see above");
ABSL_FLAG(absl::Duration, target_step_time, lockstep::router::kServingStepTime,
          "as of lockstep-router");
ABSL_FLAG(absl::Duration, max_time_per_token, absl::InfiniteDuration(), "as of lockstep-router");
ABSL_FLAG(absl::Duration, max_time_to_first_token, absl::InfiniteDuration(),
          "as of lockstep-router; only loads with a rate have it");
ABSL_FLAG(absl::Duration, seconds, absl::Seconds(60),
          "virtual time of each load, after a warm-up of 15 s");
ABSL_FLAG(uint32_t, window, 0, "tokens of the window of a second KV group; 0: one group");
ABSL_FLAG(uint64_t, seed, 1, "of the lengths and times");

namespace lockstep::bench {
namespace {

void Expect(bool is_valid, const std::string& load) {
  LOCKSTEP_CHECK(is_valid, "load '{}': expected SxP+O, E&SxP+O, SxC+P+O or rate:RxP+O", load);
}

uint32_t ParseNumber(const std::string& load, const std::string& text) {
  uint32_t number = 0;
  Expect(absl::SimpleAtoi(text, &number) && number > 0, load);
  return number;
}

constexpr uint32_t kNumPrefixes = 8;

Range About(uint32_t mean) { return {std::max(1u, mean - mean / 2), mean + mean / 2}; }

Load Parse(const std::string& text) {
  absl::string_view rest = text;
  const bool has_rate = absl::ConsumePrefix(&rest, "rate:");
  const std::vector<std::string> halves = absl::StrSplit(rest, '&');
  const std::vector<std::string> parts = absl::StrSplit(halves.back(), absl::ByAnyChar("x+"));
  const bool has_endless = halves.size() == 2;
  const bool has_prefixes = parts.size() == 4;
  Expect(halves.size() <= 2 && (parts.size() == 3 || has_prefixes), text);
  Expect(!has_rate || !(has_endless || has_prefixes), text);
  Load load = {.target_step_time = absl::GetFlag(FLAGS_target_step_time),
               .max_time_per_token = absl::GetFlag(FLAGS_max_time_per_token),
               .duration = absl::GetFlag(FLAGS_seconds),
               .window_tokens = absl::GetFlag(FLAGS_window),
               .seed = absl::GetFlag(FLAGS_seed)};
  const uint32_t level = ParseNumber(text, parts[0]);
  if (has_rate) {
    load.requests_per_s = level;
    load.max_time_to_first_token = absl::GetFlag(FLAGS_max_time_to_first_token);
  } else {
    load.num_streams = level;
  }
  if (has_endless) load.num_endless = ParseNumber(text, halves[0]);
  if (!has_prefixes) {
    load.prompt_tokens = About(ParseNumber(text, parts[1]));
    load.output_tokens = About(ParseNumber(text, parts[2]));
    return load;
  }
  load.num_prefixes = kNumPrefixes;
  load.prefix_tokens = ParseNumber(text, parts[1]);
  const uint32_t prompt = ParseNumber(text, parts[2]);
  const uint32_t output = ParseNumber(text, parts[3]);
  load.prompt_tokens = {prompt, prompt};
  load.output_tokens = {output, output};
  return load;
}

void Run(const std::string& text) {
  const LoadFigures figures = Simulate(Parse(text));
  fmt::print(R"({{"load": "{}", "output_tokens_per_s": {:.0f}, "prompt_tokens_per_s": {:.0f}, )"
             R"("first_ms_p50": {:.1f}, "first_ms_p99": {:.1f}, )"
             R"("gap_ms_p50": {:.1f}, "gap_ms_p99": {:.1f}, )"
             R"("token_ms_p50": {:.1f}, "token_ms_p99": {:.1f}, "requests_per_s": {:.1f}, )"
             R"("good_requests_per_s": {:.1f}, "refused_per_s": {:.1f}}})"
             "\n",
             text, figures.output_tokens_per_s, figures.prompt_tokens_per_s,
             Quantile(figures.first_ms, 0.5), Quantile(figures.first_ms, 0.99),
             Quantile(figures.gap_ms, 0.5), Quantile(figures.gap_ms, 0.99),
             Quantile(figures.token_ms, 0.5), Quantile(figures.token_ms, 0.99),
             figures.requests_per_s, figures.good_requests_per_s, figures.refused_per_s);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  for (const std::string& load : absl::GetFlag(FLAGS_loads)) lockstep::bench::Run(load);
  return 0;
}
