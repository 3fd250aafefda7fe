#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/ids.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/slots/draft_rows.h"
#include "kernels/slots/slot_state.h"

// The beginning of a round with drafts on the device. Drafts depend on the slot's own tokens alone,
// so all ranks of a group draft the same.
namespace lockstep::kernels {

// A suffix must occur again with at least this many tokens, and more than the other number make no
// difference.
inline constexpr uint32_t kMinRepeatedTokens = 2;
inline constexpr uint32_t kMaxRepeatedTokens = 8;

struct DraftTokensParams {
  const uint32_t* row_slots = nullptr;  // [num_rows], kNoSlot for padding
  DraftRows rows = {};                  // exist
  int64_t num_rows = 0;
  int64_t vocab_size = 0;
  SlotState state = {};
  const DeviceSampleParams* params = nullptr;  // [num_slots]: max_total_tokens bounds the drafts
  // [num_slots, max_context_tokens]: the known tokens of every active slot.
  const TokenId* known_tokens = nullptr;
  // [num_slots, max_context_tokens]: the draft of every position. Null: drafts are what followed
  // the longest suffix of the known tokens that occurred before, and of equally long ones the
  // latest. A text that repeats itself goes on repeating.
  const TokenId* script = nullptr;
  int64_t max_context_tokens = 0;
  uint64_t* begin_ns = nullptr;  // out: the device's global timer now; or null
};

// Writes rows.table for every slot among the rows: at most as many drafts as there are rows for
// them, and none at or behind the last token of the sequence. Drafts end before the first id
// outside the vocabulary. An inactive slot gets none.
absl::Status DraftTokens(const CudaStream& stream, const DraftTokensParams& params);

}  // namespace lockstep::kernels
