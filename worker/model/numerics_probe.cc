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
constexpr int64_t kProbeTokens = 160;
constexpr uint32_t kSingleTokens = 4;    // fed one by one in the last schedule
constexpr uint32_t kTokenStride = 7919;  // spreads the tokens over the vocabulary

constexpr int64_t kTokensBehindWindow = 64;  // a tile of keys

// At least two. At most kProbeTokens, unless more are needed to pass a window, and have room.
std::vector<TokenId> ProbeTokens(const ForwardModelInfo& info, int64_t window_tokens) {
  int64_t room = std::min(info.max_step_tokens, info.max_context_tokens);
  for (const KvGroupInfo& group : info.kv_groups) {
    room = std::min(room, int64_t{group.num_blocks} * info.block_size_tokens);
  }
  const int64_t past_window = window_tokens == 0 ? 0 : window_tokens + kTokensBehindWindow;
  const int64_t wanted = std::max(kProbeTokens, past_window <= room ? past_window : 0);
  const int64_t num_tokens = std::max<int64_t>(2, std::min(wanted, room));
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
  const std::vector<std::vector<BlockId>> block_tables(info.kv_groups.size(), blocks);
  std::vector<float> logits(info.vocab_size);
  uint32_t position = 0;
  for (const uint32_t length : step_lengths) {
    const uint32_t last = length - 1;
    const ForwardRow row = {.first_token = 0,
                            .num_tokens = length,
                            .first_position = position,
                            .block_tables = block_tables};
    model.Forward({.token_ids = tokens.subspan(position, length),
                   .rows = {&row, 1},
                   .logits_tokens = {&last, 1}},
                  logits);
    position += length;
  }
  return logits;
}

}  // namespace

uint64_t HashOf(std::span<const kernels::RopeTable> tables) {
  const auto hash_of = [](const kernels::RopeTable& table) {
    return CombineHashes(Hash64(std::as_bytes(std::span(table.cos))),
                         Hash64(std::as_bytes(std::span(table.sin))));
  };
  uint64_t hash = hash_of(tables.front());
  for (const kernels::RopeTable& table : tables.subspan(1)) {
    hash = CombineHashes(hash, hash_of(table));
  }
  return hash;
}

uint64_t NumericsId(const ForwardModelInfo& info, std::span<const uint64_t> kernel_constants,
                    uint64_t rope_hash, uint64_t probe_hash) {
  uint64_t id = Hash64(info.device);
  for (const uint64_t constant : kernel_constants) id = CombineHashes(id, constant);
  for (const uint64_t part :
       {info.model_fingerprint, info.weights_fingerprint, rope_hash, probe_hash}) {
    id = CombineHashes(id, part);
  }
  // bf16 adds nothing. So workers that know no other type have the same ids.
  for (const KvGroupInfo& group : info.kv_groups) {
    if (group.dtype != "bf16") id = CombineHashes(id, Hash64(group.dtype));
  }
  return id;
}

uint64_t ProbeHash(ForwardModel& model) {
  const std::vector<TokenId> tokens = ProbeTokens(model.info(), /*window_tokens=*/0);
  const uint32_t whole = static_cast<uint32_t>(tokens.size());
  const std::vector<float> logits = RunInSteps(model, tokens, {&whole, 1});
  return Hash64(std::as_bytes(std::span(logits)));
}

absl::Status CheckProbeSchedules(ForwardModel& model, int64_t window_tokens) {
  const std::vector<TokenId> tokens = ProbeTokens(model.info(), window_tokens);
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
