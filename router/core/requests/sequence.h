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
#include "router/core/policy/policy.h"
#include "router/core/policy/tenant_shares.h"

namespace lockstep::router {

struct Sequence;

// A sequence's stay in one slot of one worker, from `started` until no step in flight runs it.
// `planned_*` count every step in flight as if it had kept all that it may.
struct Residency {
  Sequence* owner = nullptr;  // null once the sequence ended: what still arrives is dropped
  SlotId slot = 0;
  BlockTable blocks;
  uint32_t num_sent_blocks = 0;  // the worker was told so many of them
  uint32_t num_computed = 0;     // leading positions whose KV is acknowledged
  uint32_t planned_computed = 0;
  uint32_t planned_known = 0;  // tokens, prompt included
  uint32_t rows_in_flight = 0;
  uint32_t first_prompt_logprob = 0;  // as sent in `started`
  PublishedPrefix published;
  bool inert = false;  // the worker said that it stopped or failed
};

// The states of a sequence own what it holds while in them.
struct Gated {};  // a sibling that has not been let into the queue yet; it holds no tokens
struct Waiting {};
struct Running {
  std::unique_ptr<Residency> residency;
};
// Gave up its slot with steps in flight; the lease keeps the residency until they are acknowledged.
// The tokens that they bring are still its own.
struct Draining {
  Residency* residency = nullptr;
};
struct Ended {};
using SequenceState = std::variant<Gated, Waiting, Running, Draining, Ended>;

struct LiveRequest;

// A sequence whose steps are refused so often before it gets any further will be refused for ever,
// and one that was in flight when so many workers were lost will take the next one along as well.
// On its last tries it runs alone, with nothing else in flight, until it does get further: so it
// cannot take batch mates with it, nor they it. A refusal says whose fault it is, a loss does not:
// where many workers fail, one is lost over a sequence that is alone by accident, but hardly two in
// a row.
inline constexpr uint32_t kMaxRefusals = 3;
inline constexpr uint32_t kMaxLoneRefusals = 1;  // of these, when it runs alone
inline constexpr uint32_t kMaxLosses = 4;
inline constexpr uint32_t kMaxLoneLosses = 2;

// One sample of a request.
struct Sequence {
  LiveRequest* request = nullptr;
  uint32_t sample_index = 0;
  PolicyView view;
  std::vector<TokenId> tokens;  // prompt and everything that a worker's result brought
  uint32_t max_total_tokens = 0;
  uint32_t num_preemptions = 0;
  uint32_t num_refusals = 0;  // steps that ran it and were refused, since its last progress
  // Leading positions that were ever computed, on whichever lease. Only what is beyond is progress:
  // what a restart computes again is not.
  uint32_t furthest_computed = 0;
  uint32_t num_charged = 0;  // leading prompt positions that count in its tenant's share
  struct Losses {
    uint32_t count = 0;              // workers lost with a row of it in flight, and
    uint32_t furthest_computed = 0;  // how far it had got at the last of them
  };
  Losses losses;
  std::optional<uint32_t> num_cached_tokens;  // of its first start
  SequenceState state;

  uint32_t num_tokens() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t num_generated() const;
  // Since its last progress.
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
};

// A request with at least one live sequence. Its address is stable.
struct LiveRequest {
  std::shared_ptr<const Request> request;
  TenantShare* share = nullptr;   // of its tenant; null between two populations
  std::vector<Sequence> samples;  // by sample index; never resized
  uint32_t num_live = 0;
  uint32_t num_resident = 0;  // running ones
  bool waits = false;         // counted in the queue: live, and none of it runs
  bool admitted = false;
  Instant served_until = Instant::InfinitePast();  // when it last had to leave a worker

  // The first live sample goes ahead; the others start when it has computed `gate_tokens`, so that
  // they find the prompt's full blocks in the prefix index.
  uint32_t leader = 0;
  uint32_t gate_tokens = 0;
  bool gate_open = false;

  std::vector<TokenLogprobs> prompt_logprobs;
  uint32_t next_prompt_logprob = 0;  // position wanted next; 0: none (any more)

  uint32_t num_prompt_tokens() const {
    return static_cast<uint32_t>(request->prompt_tokens.size());
  }
  bool MayStart(const Sequence& sequence) const {
    return gate_open || sequence.sample_index == leader;
  }
  // Tokens or prompt log-probabilities were computed, delivered or not, also of ended samples.
  bool HasOutput() const;
};

inline uint32_t Sequence::num_generated() const {
  return tokens.empty() ? 0 : num_tokens() - request->num_prompt_tokens();
}

inline bool LiveRequest::HasOutput() const {
  const bool describes_prompt =
      request->sampling.num_prompt_logprobs >= 0 && num_prompt_tokens() > 1;
  return (describes_prompt && next_prompt_logprob != 1) ||
         std::ranges::any_of(samples, [](const Sequence& s) { return s.num_generated() > 0; });
}

}  // namespace lockstep::router
