#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/plan/bench_request.h"
#include "cli/bench/plan/length_range.h"

// The requests of a load, as pure functions: the same seed gives the same requests.
namespace lockstep::cli {

// Random token ids.
struct RandomWorkload {
  LengthRange prompt = {512, 512};  // tokens after the prefix
  LengthRange output = {128, 128};
  uint32_t prefix_tokens = 0;  // in front of every prompt: one of the prefixes
  uint32_t num_prefixes = 1;
  uint32_t turns = 1;         // requests of a conversation; each begins with its whole predecessor
  uint32_t vocab_size = 250;  // ids are 3 .. vocab_size - 1

  BenchRequest Request(uint64_t seed, uint64_t index) const;
};

// One of the seven workloads for comparing engines: prompts, all submitted at once.
struct BenchScenario {
  std::string_view name;
  std::vector<uint32_t> prompt_lengths;
  uint32_t num_output_tokens;

  BenchRequest Request(uint64_t seed, uint64_t index, uint32_t vocab_size) const;
};
std::vector<BenchScenario> AllBenchScenarios();
// NOT_FOUND naming the known ones.
absl::StatusOr<BenchScenario> FindBenchScenario(std::string_view name);

// The conversations of a ShareGPT file, a JSON array of {"conversations": [{"from": "human",
// "value": ...}, {"from": "gpt", ...}]}. Each answer of a conversation makes a request for about as
// many tokens; everything before the answer is its prompt. An incomplete file gives its complete
// conversations. INVALID_ARGUMENT if there is none.
absl::StatusOr<std::vector<BenchRequest>> ParseShareGpt(std::string_view json);

// A request of a recorded trace.
struct TracedRequest {
  double at_seconds = 0.0;  // since the first one
  BenchRequest request;
};
// Lines of JSON with `timestamp` (seconds), `input_length`, `output_length`, and perhaps
// `hash_ids`: equal ids stand for equal blocks of `block_tokens` prompt tokens. In order of time.
// INVALID_ARGUMENT naming the line.
absl::StatusOr<std::vector<TracedRequest>> ParseTrace(std::string_view lines, uint32_t block_tokens,
                                                      uint32_t vocab_size);

}  // namespace lockstep::cli
