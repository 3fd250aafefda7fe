#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/ids.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/rope/rotary_append.h"
#include "kernels/slots/draft_rows.h"

// The device's own memory of the running sequences. With it, a decode step needs no token ids,
// positions or block tables from the host.
namespace lockstep::kernels {

inline constexpr uint32_t kNoSlot = UINT32_MAX;  // a row of padding

// Device arrays. A slot is active from its start until it stops, fails or is released; rows of
// other slots are padding.
struct SlotState {
  TokenId* last_token = nullptr;    // [num_slots]: the latest known token
  uint32_t* position = nullptr;     // [num_slots]: of that token
  uint32_t* active = nullptr;       // [num_slots]: 0 or 1
  BlockId* block_tables = nullptr;  // [num_slots, max_blocks]
  int64_t num_slots = 0;
  int64_t max_blocks = 0;
};

// A change that the router ordered. Applied before the rows of its step.
struct SlotUpdate {
  uint32_t slot = 0;
  uint32_t sets_state = 0;  // 1: the next three fields are applied
  TokenId last_token = 0;
  uint32_t position = 0;
  uint32_t active = 0;
  uint32_t first_block = 0;  // index in the slot's block table of the first new block
  uint32_t num_blocks = 0;
  uint32_t block_offset = 0;  // of the first new block in `blocks`
};

struct SlotUpdateParams {
  SlotState state;
  // Of distinct slots. These and the blocks are in pinned or device memory, and complete before the
  // call.
  const SlotUpdate* updates = nullptr;  // [num_updates]
  const BlockId* blocks = nullptr;
  int64_t num_updates = 0;
};
absl::Status UpdateSlots(const CudaStream& stream, const SlotUpdateParams& params);

// The tokens of a batch: first one for every decode row, then those of the chunks. The host knows
// the ids of the chunks: they are pieces of prompts, or of the tokens of preempted sequences.
struct StepInputParams {
  SlotState state;
  const uint32_t* decode_slots = nullptr;  // [num_decode_rows], kNoSlot for padding
  DraftRows draft_rows = {};               // of the decode rows
  int64_t num_decode_rows = 0;
  // [num_chunks], ascending and without gaps in tokens; block_table_row is the slot.
  const AttentionChunk* chunks = nullptr;
  const TokenId* chunk_token_ids = nullptr;  // [tokens of all chunks], complete before the call
  int64_t num_chunks = 0;
  int64_t num_tokens = 0;         // of the batch
  TokenId* token_ids = nullptr;   // out: [num_tokens]; padding: 0
  uint32_t* positions = nullptr;  // out: [num_tokens]; padding: kNoPosition
  uint64_t* kv_slots = nullptr;   // out: [num_tokens]: block * 16 + token in block, or kNoKvSlot
  uint64_t* begin_ns = nullptr;   // out: the device's global timer now; or null
  // With overlapped launches the next kernel may start before this one has ended. It must let no
  // other kernel start before it has waited for this one.
  bool next_may_start = false;
};
// Without next_may_start no later kernel starts before this one has ended, even with overlapped
// launches.
absl::Status PrepareStepInputs(const CudaStream& stream, const StepInputParams& params);

}  // namespace lockstep::kernels
