#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "router/core/messages/request.h"

// What crosses the border of the pure scheduler: plans out, outcomes in. The engine translates both
// to and from lockstep.worker.v1; the fields mean what the proto file says.
namespace lockstep::router {

struct StartedSlot {
  SlotId slot = 0;
  std::shared_ptr<const Request> request;
  uint32_t sample_index = 0;
  std::vector<TokenId> known_tokens;  // prompt and everything generated so far
  uint32_t num_computed_tokens = 0;
  std::vector<BlockId> blocks;        // may reach beyond the known tokens
  uint32_t first_prompt_logprob = 0;  // prompt position, those after it are wanted too; 0: none
};

struct RunRow {
  SlotId slot = 0;
  // From the first token that the slot has not computed yet. The row samples when they reach the
  // last token that the worker knows; then with every decode iteration.
  uint32_t num_tokens = 0;
  std::vector<BlockId> new_blocks;  // appended to the slot's table before the step
};

struct StepPlan {
  StepId step_id = 0;
  bool resync = false;  // the worker drops all slots before applying the step
  std::vector<SlotId> released;
  std::vector<StartedSlot> started;
  std::vector<RunRow> rows;  // in batch order; none: the step only drops slots
  bool repeat_rows = false;  // rows are the last step's, none started anew, one token each
  // More than one only when every row decodes: the message then stands for so many steps, and
  // blocks are there for all of them. A row stops in between when it ends.
  uint32_t decode_iterations = 1;
  uint32_t num_prefill_tokens = 0;  // for metrics: tokens of rows that don't decode
  uint32_t num_decode_tokens = 0;   // over all iterations
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
  std::vector<TokenId> tokens;           // kept by the worker in this step
  std::vector<TokenLogprobs> logprobs;   // one per token when asked for
  StopCause stopped = StopCause::kNone;  // at the last of `tokens`; the slot is inert from now on
  bool was_inert = false;                // it had stopped or failed before: nothing was computed
  absl::Status error;                 // this row failed and is inert, the rest of the batch is fine
  uint32_t first_prompt_logprob = 0;  // position of prompt_logprobs[0]
  std::vector<TokenLogprobs> prompt_logprobs;
};

struct StepTimings {
  absl::Duration queue, compute, idle, total;
};

struct StepOutcome {
  StepId step_id = 0;
  std::vector<RowOutcome> rows;  // slots of the plan in any order; silent rows may be left out
  StepTimings timings;
  absl::Status refusal;  // not OK: nothing of this step was applied, nor of any later one
};

}  // namespace lockstep::router
