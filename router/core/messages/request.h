#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/constraints/constraint.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/sampling_numbers.h"
#include "router/core/kv/prefix_root.h"

namespace lockstep::router {

// Everything that decides which token a row samples. Every value is set: none is optional, and no
// default is left to apply.
struct SamplingParams : SamplingNumbers {
  uint64_t seed = 0;  // given by the client or drawn at admission
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // sorted by id
  std::vector<TokenId> allowed_token_ids = {};             // sorted; empty: all
  std::vector<TokenId> stop_token_ids = {};  // sorted; includes the end ids unless they are ignored
  uint32_t min_new_tokens = 0;               // until then stop ids are masked
  uint32_t max_new_tokens = 1;
  int32_t num_logprobs = -1;         // -1: none; 0: the chosen token; k: also the k best
  int32_t num_prompt_logprobs = -1;  // same values; the whole prompt is computed if not -1
};

// What the output must fit. Only a worker whose engine has this hash of its version (WorkerLimits)
// enforces it as the router checked it.
struct RequestConstraint {
  Constraint constraint;
  uint64_t engine = 0;
};

inline constexpr uint32_t kNoRowLimit = std::numeric_limits<uint32_t>::max();

// One client request. Immutable after admission. Its n sequences share it.
struct Request {
  RequestKey key = 0;
  std::string id;            // given by the client or made by the router
  std::string tenant;        // fairness id
  double tenant_weight = 1;  // share when tenants compete; positive
  PrefixRoot prefix_root;    // requests with equal roots share the KV of equal prefixes
  std::string session_id;    // requests with equal ids should go to the same replica
  int32_t priority = 0;      // lower runs earlier
  Instant arrival;
  Instant deadline = Instant::InfiniteFuture();
  std::vector<TokenId> prompt_tokens;  // at least one
  uint32_t num_samples = 1;
  bool bypass_prefix_cache = false;
  bool follows_in_batch = false;  // another prompt of the same call came before it
  // How far each sequence may run ahead of its results: rows in flight at once. This
  // must be 1 if only the router knows how a token depends on the token before it (a mask of the
  // tokens that may follow). With a limit, a row has one decode iteration.
  uint32_t max_rows_in_flight = kNoRowLimit;
  bool may_draft = true;  // workers may draft its tokens, which changes how fast they come
  // The worker may let a row wait: it then keeps no token, and a later row tries again.
  bool rows_may_wait = false;
  SamplingParams sampling;
  std::optional<RequestConstraint> constraint;  // none: any text

  // Tokens of a sequence, prompt included: below the first number stop ids are masked, and the
  // second ends the sequence.
  uint64_t min_total_tokens() const { return prompt_tokens.size() + sampling.min_new_tokens; }
  uint64_t max_total_tokens() const { return prompt_tokens.size() + sampling.max_new_tokens; }
  // When it first starts, it looks nothing up in the prefix cache.
  bool computes_whole_prompt() const {
    return bypass_prefix_cache || sampling.num_prompt_logprobs >= 0;
  }
};

enum class FinishReason { kStop, kLength, kAborted };

}  // namespace lockstep::router
