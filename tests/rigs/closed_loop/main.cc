// lockstep-closed-loop-simulate: the router's scheduler with a worker that computes nothing but
// takes the time of the Qwen3-8B shape on an H200, on a virtual clock. One JSON object a line for
// each load.
//
//   SxP+O      S streams in a closed loop, prompts of P and outputs of O tokens, both +- 50 %
//   E&SxP+O    the same beside E streams that decode for ever; gaps are of those
//   SxC+P+O    S streams whose prompts begin with one of 8 prefixes of C tokens; P more, O out
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "tests/rigs/closed_loop/closed_loop.h"
#include "tests/rigs/quantile.h"

ABSL_FLAG(std::vector<std::string>, loads,
          std::vector<std::string>({"128x512+128", "256x512+128", "64x4096+128", "64x2048+128+64",
                                    "32&2x8192+2"}),
          "see above");
ABSL_FLAG(absl::Duration, target_step_time, lockstep::router::kServingStepTime,
          "as of lockstep-router");
ABSL_FLAG(absl::Duration, seconds, absl::Seconds(60),
          "virtual time of each load, after a warm-up of 15 s");
ABSL_FLAG(uint64_t, seed, 1, "of the lengths");

namespace lockstep::bench {
namespace {

void Expect(bool is_valid, const std::string& load) {
  LOCKSTEP_CHECK(is_valid, "load '{}': expected SxP+O, E&SxP+O or SxC+P+O", load);
}

uint32_t ParseNumber(const std::string& load, const std::string& text) {
  uint32_t number = 0;
  Expect(absl::SimpleAtoi(text, &number) && number > 0, load);
  return number;
}

constexpr uint32_t kNumPrefixes = 8;

Range About(uint32_t mean) { return {std::max(1u, mean - mean / 2), mean + mean / 2}; }

ClosedLoop Parse(const std::string& load) {
  const std::vector<std::string> halves = absl::StrSplit(load, '&');
  const std::vector<std::string> parts = absl::StrSplit(halves.back(), absl::ByAnyChar("x+"));
  Expect(halves.size() <= 2 && (parts.size() == 3 || parts.size() == 4), load);
  ClosedLoop loop = {.num_streams = ParseNumber(load, parts[0]),
                     .num_endless = halves.size() == 2 ? ParseNumber(load, halves[0]) : 0,
                     .target_step_time = absl::GetFlag(FLAGS_target_step_time),
                     .duration = absl::GetFlag(FLAGS_seconds),
                     .seed = absl::GetFlag(FLAGS_seed)};
  if (parts.size() == 3) {
    loop.prompt_tokens = About(ParseNumber(load, parts[1]));
    loop.output_tokens = About(ParseNumber(load, parts[2]));
    return loop;
  }
  const uint32_t prompt = ParseNumber(load, parts[2]);
  const uint32_t output = ParseNumber(load, parts[3]);
  loop.prompt_tokens = {prompt, prompt};
  loop.output_tokens = {output, output};
  loop.num_prefixes = kNumPrefixes;
  loop.prefix_tokens = ParseNumber(load, parts[1]);
  return loop;
}

void Run(const std::string& load) {
  const ClosedLoopFigures figures = SimulateClosedLoop(Parse(load));
  fmt::print(
      R"({{"load": "{}", "output_tokens_per_s": {:.0f}, "prompt_tokens_per_s": {:.0f}, )"
      R"("first_ms_p50": {:.1f}, "first_ms_p99": {:.1f}, "gap_ms_p50": {:.1f}, "gap_ms_p99": {:.1f}}})"
      "\n",
      load, figures.output_tokens_per_s, figures.prompt_tokens_per_s,
      Quantile(figures.first_ms, 0.5), Quantile(figures.first_ms, 0.99),
      Quantile(figures.gap_ms, 0.5), Quantile(figures.gap_ms, 0.99));
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  for (const std::string& load : absl::GetFlag(FLAGS_loads)) lockstep::bench::Run(load);
  return 0;
}
