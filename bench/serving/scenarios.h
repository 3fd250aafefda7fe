#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::bench {

// The seven workloads that engines are compared on: prompts, all submitted at once, and output
// tokens of each, which nothing ends early.
struct Scenario {
  std::string_view name;
  std::vector<uint32_t> prompt_lengths;
  uint32_t num_output_tokens = 0;
};

inline std::vector<uint32_t> Repeated(const std::vector<uint32_t>& lengths, int times) {
  std::vector<uint32_t> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), lengths.begin(), lengths.end());
  return all;
}

inline std::vector<Scenario> AllScenarios() {
  return {
      {"decode_heavy_b32", Repeated({64}, 32), 256},
      {"large_batch_short_b128", Repeated({48}, 128), 64},
      {"balanced_b32", Repeated({256}, 32), 128},
      {"prefill_heavy_b16", Repeated({1024}, 16), 16},
      {"long_prefill_b4", Repeated({2048}, 4), 8},
      {"mixed_prefill_b32", Repeated({32, 64, 96, 128, 192, 256, 384, 512}, 4), 64},
      {"long_decode_b32", Repeated({1024}, 32), 256},
  };
}

}  // namespace lockstep::bench
