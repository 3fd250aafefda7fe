#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/kv_group.h"
#include "router/core/messages/request.h"

// Messages between the pure scheduler and the rest of the router: plans go out, outcomes come in.
// The engine translates both to and from lockstep.worker.v1. The fields mean the same as in the
// proto file.
namespace lockstep::router {

struct StartedSlot {
  SlotId slot = 0;
  std::shared_ptr<const Request> request;
  uint32_t sample_index = 0;
  std::vector<TokenId> known_tokens;  // the prompt and all tokens generated so far
  uint32_t num_computed_tokens = 0;
  std::vector<GroupBlocks> blocks;    // of every group; may cover more than the known tokens
  uint32_t first_prompt_logprob = 0;  // wanted from this prompt position on; 0: none wanted
};

struct RunRow {
  SlotId slot = 0;
  // Counted from the first token that the slot has not computed yet. If these tokens reach the last
  // token that the worker knows, the row samples a token. It then samples another with every
  // further decode iteration.
  uint32_t num_tokens = 0;
  // How many tokens the worker may draft for the row. 0 unless the row decodes. The worker keeps
  // the drafts that equal the sampled tokens, and one token more: 1 to max_drafts + 1 tokens in
  // all.
  uint32_t max_drafts = 0;
  std::vector<GroupBlocks> new_blocks;  // appended to the slot's tables before the step
};

struct StepPlan {
  StepId step_id = 0;
  bool resync = false;  // the worker drops all slots before applying the step
  std::vector<SlotId> released;
  std::vector<StartedSlot> started;
  std::vector<RunRow> rows;  // in batch order; empty: the step only drops slots
  // Same rows as in the last step, with the same limits of drafts, no new starts, one token each.
  bool repeat_rows = false;
  // More than one only if every row decodes, and none drafts. The message then stands for that many
  // steps, and blocks are reserved for all of them. A row that ends early stops there.
  uint32_t decode_iterations = 1;
  uint32_t num_prefill_tokens = 0;  // for metrics: tokens of rows that don't decode
  uint32_t num_decode_tokens = 0;   // over all iterations; drafts do not count
};

struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0;
  uint32_t rank = 0;  // 1 is the most likely
  std::vector<std::pair<TokenId, float>> top;
};

enum class StopCause { kNone, kStopToken, kLength };

struct RowOutcome {
  SlotId slot = 0;
  uint32_t num_drafted = 0;              // tokens that the worker drafted and compared
  std::vector<TokenId> tokens;           // kept by the worker in this step
  std::vector<TokenLogprobs> logprobs;   // one per token if asked for
  StopCause stopped = StopCause::kNone;  // at the last of `tokens`; then the slot is inert
  bool was_inert = false;             // it had stopped or failed earlier, so nothing was computed
  absl::Status error;                 // this row failed and is inert; the other rows are fine
  uint32_t first_prompt_logprob = 0;  // position of prompt_logprobs[0]
  std::vector<TokenLogprobs> prompt_logprobs;
};

struct StepTimings {
  absl::Duration queue, compute, idle, total;
};

struct StepOutcome {
  StepId step_id = 0;
  std::vector<RowOutcome> rows;  // slots of the plan in any order; rows without news may be missing
  StepTimings timings;
  absl::Status refusal;  // not OK: neither this step nor any later one was applied
};

}  // namespace lockstep::router
