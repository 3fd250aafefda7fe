#include "worker/model/numerics_probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "common/hash.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

// Past two tiles of keys, and past the first border of the CUDA kernels.
constexpr uint32_t kProbeTokens = 160;
constexpr uint32_t kSingleTokens = 4;    // fed one by one in the last schedule
constexpr uint32_t kTokenStride = 7919;  // spreads the tokens over the vocabulary

// At least two, at most kProbeTokens.
std::vector<TokenId> ProbeTokens(const ForwardModelInfo& info) {
  const uint32_t num_tokens =
      std::max(2u, std::min({kProbeTokens, info.max_step_tokens, info.max_context_tokens,
                             info.kv_groups.front().num_blocks * info.block_size_tokens}));
  std::vector<TokenId> tokens;
  for (uint32_t i = 1; i <= num_tokens; ++i) tokens.push_back(i * kTokenStride % info.vocab_size);
  return tokens;
}

// Logits after the last token, when the prompt is cut into steps of these lengths.
std::vector<float> RunInSteps(ForwardModel& model, std::span<const TokenId> tokens,
                              std::span<const uint32_t> step_lengths) {
  const ForwardModelInfo& info = model.info();
  std::vector<BlockId> blocks((tokens.size() + info.block_size_tokens - 1) /
                              info.block_size_tokens);
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  std::vector<float> logits(info.vocab_size);
  uint32_t position = 0;
  for (const uint32_t length : step_lengths) {
    const uint32_t last = length - 1;
    const ForwardRow row = {.first_token = 0,
                            .num_tokens = length,
                            .first_position = position,
                            .block_tables = {&blocks, 1}};
    model.Forward({.token_ids = tokens.subspan(position, length),
                   .rows = {&row, 1},
                   .logits_tokens = {&last, 1}},
                  logits);
    position += length;
  }
  return logits;
}

}  // namespace

uint64_t HashOf(const kernels::RopeTable& table) {
  return CombineHashes(Hash64(std::as_bytes(std::span(table.cos))),
                       Hash64(std::as_bytes(std::span(table.sin))));
}

uint64_t NumericsId(const ForwardModelInfo& info, std::span<const uint64_t> kernel_constants,
                    uint64_t rope_hash, uint64_t probe_hash) {
  uint64_t id = Hash64(info.device);
  for (const uint64_t constant : kernel_constants) id = CombineHashes(id, constant);
  for (const uint64_t part :
       {info.model_fingerprint, info.weights_fingerprint, rope_hash, probe_hash}) {
    id = CombineHashes(id, part);
  }
  return id;
}

uint64_t ProbeHash(ForwardModel& model) {
  const std::vector<TokenId> tokens = ProbeTokens(model.info());
  const uint32_t whole = static_cast<uint32_t>(tokens.size());
  const std::vector<float> logits = RunInSteps(model, tokens, {&whole, 1});
  return Hash64(std::as_bytes(std::span(logits)));
}

absl::Status CheckProbeSchedules(ForwardModel& model) {
  const std::vector<TokenId> tokens = ProbeTokens(model.info());
  const uint32_t whole = static_cast<uint32_t>(tokens.size());
  const std::vector<float> expected = RunInSteps(model, tokens, {&whole, 1});
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      return InvalidArgument(
          "self-check: after {} tokens the logit of token {} is {}; the weights are damaged, or "
          "too large for bf16",
          whole, i, expected[i]);
    }
  }
  const uint32_t num_single = std::min(kSingleTokens, whole - 1);
  std::vector<uint32_t> ending_in_decode = {whole - num_single};
  ending_in_decode.resize(1 + num_single, 1);
  const std::vector<uint32_t> schedules[] = {{whole / 2, whole - whole / 2}, ending_in_decode};
  for (const std::vector<uint32_t>& steps : schedules) {
    const std::vector<float> logits = RunInSteps(model, tokens, steps);
    if (std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)) != 0) {
      return Internal(
          "self-check: the logits after {} tokens are not the same bits in {} steps as in one",
          whole, steps.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
