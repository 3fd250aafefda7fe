#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/sampling/cuda/sample_cuda.h"

// The end of a decode iteration on the device: the sampled tokens become the input of the next
// iteration. The host polls a ring in pinned memory to see them.
namespace lockstep::kernels {

enum DeviceStopCause : uint32_t {  // as StopCause of the step protocol
  kStillRuns = 0,
  kStoppedByToken = 1,
  kStoppedByLength = 2,
};

struct SampledRow {
  uint32_t slot = kNoSlot;
  TokenId token = 0;
  uint32_t status = kNotSampled;     // SampleStatus
  uint32_t stop_cause = kStillRuns;  // DeviceStopCause
};

// Entry number n % capacity holds the results of the iteration with serial number n (from 0). The
// host may read it once reported[n % capacity] is n + 1 (an acquiring load), and must not let more
// than `capacity` iterations be under way. All arrays but `next` are pinned host memory.
struct ResultRing {
  uint64_t* next = nullptr;      // device memory: serial number of the next iteration, at first 0
  uint64_t* reported = nullptr;  // [capacity], at first 0; written last
  uint64_t* begin_ns = nullptr;  // [capacity], of the device's global timer; 0 when not known
  uint64_t* end_ns = nullptr;    // [capacity]
  SampledRow* rows = nullptr;    // [capacity, max_rows]
  RowDescription* descriptions = nullptr;  // [capacity, max_rows], or null
  uint32_t capacity = 0;
  uint32_t max_rows = 0;
};

struct FinishStepParams {
  const uint32_t* row_slots = nullptr;  // [num_rows], distinct but for rows of drafts; kNoSlot for
                                        // padding
  DraftRows draft_rows = {};            // of the rows
  const TokenId* tokens = nullptr;      // [num_rows], of SampleRows
  const uint32_t* statuses = nullptr;   // [num_rows]
  const RowDescription* descriptions = nullptr;  // [num_rows], of DescribeRows; or null
  int64_t num_rows = 0;                          // <= ring.max_rows
  int64_t vocab_size = 0;
  SlotState state = {};
  SamplerTables tables = {};
  // [num_slots, max_context_tokens] device memory: receives the tokens at their positions; or null.
  TokenId* known_tokens = nullptr;
  int64_t max_context_tokens = 0;
  const uint64_t* begin_ns = nullptr;  // device memory: when the iteration began; or null
  ResultRing ring = {};
};

// For every row with status kSampled: the token becomes the slot's last one, its position advances,
// its count goes up if the slot has penalties, and the slot becomes inactive if the token is a stop
// id or the sequence has reached its length. A row with kNoTokenLeft makes its slot inactive. Then
// the ring's next entry is written.
//
// The token of a draft's row counts only if the row before it was kept, the slot is still active,
// and the draft is the token that the row before it sampled. Otherwise the row and those behind it
// become kNotKept in the ring, and change nothing. So a slot keeps the tokens that it would have
// sampled one by one.
absl::Status FinishStep(const CudaStream& stream, const FinishStepParams& params);

}  // namespace lockstep::kernels
