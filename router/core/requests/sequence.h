#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "router/core/kv/kv_cache.h"
#include "router/core/messages/request.h"
#include "router/core/messages/step.h"
#include "router/core/policy/draft_record.h"
#include "router/core/policy/policy.h"
#include "router/core/policy/tenant_shares.h"

namespace lockstep::router {

struct Sequence;

// A sequence's stay in one slot of one worker, from `started` until no step in flight runs it.
//
// The owner's tokens are those in results that came back. While rows are in flight there are two
// bounds. `min_known`: every row keeps as few tokens as it may. `planned_*`: every row keeps as
// many as it may, up to the end of the sequence. Blocks are reserved by the upper bound. Results
// use only acknowledged tokens.
struct Residency {
  Sequence* owner = nullptr;  // null once the sequence ended; later results are dropped
  SlotId slot = 0;
  uint32_t num_computed = 0;  // leading positions with acknowledged KV
  uint32_t planned_computed = 0;
  uint32_t planned_known = 0;  // tokens, prompt included
  uint32_t min_known = 0;      // may lie behind the end: the last rows in flight are inert then
  uint32_t max_kept_in_flight = 0;  // tokens that the rows in flight may keep in all
  uint32_t rows_in_flight = 0;
  uint32_t draft_limit = 0;           // of its next row, if that decodes
  bool probes_drafts = false;         // the last of these drafts is a probe (DraftRecord)
  uint32_t first_prompt_logprob = 0;  // as sent in `started`
  Instant waits_since = Instant::InfiniteFuture();  // first of the latest rows that kept no token
  bool inert = false;  // the worker said that the row stopped or failed
  BlockTable blocks;
  PublishedPrefix published;
};

// A sequence fails if its rows keep no token for so long in one slot. What a row waits for comes
// from the router, within a few steps. If it never comes, the deadline alone would end the request,
// after an hour perhaps. Until then the sequence would hold a slot, and take a row of every step.
inline constexpr absl::Duration kMaxRowWait = absl::Seconds(30);

// Each state owns what the sequence holds while it is in that state.
struct Gated {};  // a later sample that may not queue yet; it holds no tokens
struct Waiting {};
struct Running {
  std::unique_ptr<Residency> residency;
};
// It gave up its slot while steps were in flight. The lease keeps the residency until they are
// acknowledged. The tokens in their results still belong to the sequence.
struct Draining {
  Residency* residency = nullptr;
};
struct Ended {};
using SequenceState = std::variant<Gated, Waiting, Running, Draining, Ended>;

struct LiveRequest;

// A sequence fails after this many refused steps, or this many lost workers, without progress. It
// would probably be refused for ever, or the next worker would be lost as well. On its last tries
// the sequence runs alone, with nothing else in flight, until it makes progress. So it cannot harm
// other sequences, and they cannot harm it. A refusal shows that the step is at fault, a loss does
// not. Where many workers fail, one may be lost by accident while a sequence runs alone, but hardly
// two in a row.
inline constexpr uint32_t kMaxRefusals = 3;
inline constexpr uint32_t kMaxLoneRefusals = 1;  // how many of these while it runs alone
inline constexpr uint32_t kMaxLosses = 4;
inline constexpr uint32_t kMaxLoneLosses = 2;

// One sample of a request.
struct Sequence {
  LiveRequest* request = nullptr;
  uint32_t sample_index = 0;
  PolicyView view;
  std::vector<TokenId> tokens;  // the prompt, and every token that a worker returned
  uint32_t max_total_tokens = 0;
  uint32_t max_rows_in_flight = 0;  // as the request says
  bool rows_may_wait = false;       // likewise
  DraftRecord drafts;
  uint32_t num_preemptions = 0;
  uint32_t num_refusals = 0;  // refused steps that ran it, since its last progress
  // Leading positions that were ever computed, on any lease. Only positions beyond these are
  // progress. Positions that a restart computes again are not.
  uint32_t furthest_computed = 0;
  uint32_t num_charged = 0;  // leading prompt positions already charged to its tenant
  struct Losses {
    uint32_t count = 0;              // workers lost while a row of the sequence was in flight
    uint32_t furthest_computed = 0;  // how far it had got at the last loss
  };
  Losses losses;
  std::optional<uint32_t> num_cached_tokens;  // at its first start
  SequenceState state;

  uint32_t num_tokens() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t num_generated() const;
  // Tokens that it computes when it starts, if the prefix cache has nothing but what other samples
  // of the request computed.
  uint32_t num_own_tokens() const;
  // Leading tokens that may come from the prefix cache when it starts. The last token is always
  // computed, because the next sample needs its logits. For the same reason, so is the token before
  // the first prompt position that still needs its log-probability.
  uint32_t max_cached_tokens() const;
  // Losses since its last progress.
  uint32_t num_losses() const {
    return furthest_computed > losses.furthest_computed ? 0 : losses.count;
  }
  bool was_lost_over() const { return num_losses() + kMaxLoneLosses >= kMaxLosses; }
  bool suspect() const {
    return num_refusals + kMaxLoneRefusals >= kMaxRefusals || was_lost_over();
  }
  bool live() const { return !std::holds_alternative<Ended>(state); }
  Residency* running() const {
    const auto* state_running = std::get_if<Running>(&state);
    return state_running == nullptr ? nullptr : state_running->residency.get();
  }
  // Known tokens that are not computed yet; 0 if it decodes, which computes one next. Call only
  // while it runs.
  uint32_t num_prefill_tokens() const {
    const uint32_t num_computed = running()->num_computed;
    return num_computed + 1 < num_tokens() ? num_tokens() - num_computed : 0;
  }
};

// A request with at least one live sequence. Its address is stable.
struct LiveRequest {
  std::shared_ptr<const Request> request;
  TenantShare* share = nullptr;   // of its tenant; null between two populations
  std::vector<Sequence> samples;  // by sample index; never resized
  uint32_t num_live = 0;
  uint32_t num_resident = 0;  // running samples
  bool waits = false;         // counted in the queue: it is live and no sample runs
  bool started = false;
  // When a sample last left a worker that had computed something new.
  Instant served_until = Instant::InfinitePast();

  // The first live sample leads. The others start when it has computed `gate_tokens`. They then
  // find the prompt's full blocks in the prefix index.
  uint32_t leader = 0;
  uint32_t gate_tokens = 0;
  bool gate_open = false;

  std::vector<TokenLogprobs> prompt_logprobs;
  uint32_t next_prompt_logprob = 0;  // next position wanted; 0: none, or none any more

  uint32_t num_prompt_tokens() const {
    return static_cast<uint32_t>(request->prompt_tokens.size());
  }
  bool MayStart(const Sequence& sequence) const {
    return gate_open || sequence.sample_index == leader;
  }
  // True if tokens or prompt log-probabilities were computed, even if not delivered. Ended samples
  // count.
  bool HasOutput() const;
};

inline uint32_t Sequence::num_generated() const {
  return tokens.empty() ? 0 : num_tokens() - request->num_prompt_tokens();
}

inline uint32_t Sequence::num_own_tokens() const {
  const bool leads = sample_index == request->leader && !request->gate_open;
  const bool follows = !leads && !request->request->bypass_prefix_cache;
  return num_tokens() - (follows ? std::min(num_tokens(), request->gate_tokens) : 0);
}

inline uint32_t Sequence::max_cached_tokens() const {
  if (request->request->bypass_prefix_cache) return 0;
  if (request->next_prompt_logprob > 0) return request->next_prompt_logprob - 1;
  return tokens.empty() ? 0 : num_tokens() - 1;
}

inline bool LiveRequest::HasOutput() const {
  const bool describes_prompt =
      request->sampling.num_prompt_logprobs >= 0 && num_prompt_tokens() > 1;
  return (describes_prompt && next_prompt_logprob != 1) ||
         std::ranges::any_of(samples, [](const Sequence& s) { return s.num_generated() > 0; });
}

}  // namespace lockstep::router
