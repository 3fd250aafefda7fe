#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

#include "kernels/attention/paged_attention.h"
#include "kernels/device/device_buffer.h"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/finish_step.h"
#include "kernels/slots/slot_state.h"
#include "worker/cuda/model.h"
#include "worker/cuda/stage_batch.h"
#include "worker/cuda/steps/step_drafts.h"
#include "worker/memory/arena.h"
#include "worker/steps/executor_limits.h"

namespace lockstep::worker {

// Ids that a sequence's sampling parameters may list in all: biased, allowed and stop tokens.
inline constexpr uint32_t kMaxSamplingListIds = 18 * 1024;

// What the host writes for one forward pass, in pinned memory that the device reads. L stands for
// max_logits_rows.
struct PassStaging {
  BlockId* blocks = nullptr;               // [max_slots * max_blocks]: new blocks of all updates
  kernels::SlotUpdate* updates = nullptr;  // [max_slots]
  kernels::CountUpdate* count_updates = nullptr;  // [max_slots]
  BatchStaging batch;
  uint32_t* draft_numbers = nullptr;   // [max_slots], beside batch.decode_slots
  uint32_t* logits_tokens = nullptr;   // [L]: rows that sample come first
  uint32_t* sample_slots = nullptr;    // [L]
  TokenId* prompt_tokens = nullptr;    // [L]: tokens whose log-probability is wanted
  int32_t* prompt_num_best = nullptr;  // [L]
  kernels::RowDescription* prompt_descriptions = nullptr;  // [L], written by the device
};

// Host-written memory of one slot, pinned. Rewritten only when no pass under way reads it.
struct SlotStaging {
  kernels::DeviceSampleParams* params = nullptr;
  TokenId* list_ids = nullptr;      // [kMaxSamplingListIds]
  float* list_values = nullptr;     // likewise
  TokenId* known_tokens = nullptr;  // [max_context_tokens]
};

// Device and pinned memory of one rank of a CudaStepRunner, allocated once. Ranks read the same
// staging.
class CudaStepMemory {
 public:
  // Passes that may be under way at once.
  static constexpr uint32_t kNumPasses = 32;

  // What decides how much device memory there is.
  struct DeviceShape {
    int64_t max_slots = 0;
    int64_t max_logits_rows = 0;
    int64_t vocab_size = 0;
    int64_t max_context_tokens = 0;
    CudaDrafts drafts = {};
  };

  // With the staging of `staging_of`, which outlives the result; null: with staging of its own.
  static absl::StatusOr<std::unique_ptr<CudaStepMemory>> Create(
      const CudaModel& model, const CudaDrafts& drafts = {},
      const CudaStepMemory* staging_of = nullptr);
  // Device memory that Create takes.
  static size_t DeviceBytes(const DeviceShape& shape);

  PassStaging staging[kNumPasses];
  kernels::ResultRing ring;  // of this rank

  // Arrays over slots; `SlotOf` gives one slot's part.
  kernels::DeviceSampleParams* host_params = nullptr;
  TokenId* host_list_ids = nullptr;
  float* host_list_values = nullptr;
  TokenId* host_known_tokens = nullptr;
  SlotStaging SlotOf(uint32_t slot) const;

  // Device memory.
  kernels::DeviceSampleParams* params = nullptr;    // [max_slots]
  TokenId* list_ids = nullptr;                      // [max_slots, kMaxSamplingListIds]
  float* list_values = nullptr;                     // likewise
  uint32_t* token_counts = nullptr;                 // [max_slots, vocab_size]: row of the slot
  uint32_t* row_slots = nullptr;                    // [max_slots]: rows of the decode graphs
  TokenId* tokens = nullptr;                        // [L], sampled
  uint32_t* statuses = nullptr;                     // [L]
  int32_t* num_best = nullptr;                      // [L]
  kernels::RowDescription* descriptions = nullptr;  // [L]
  uint64_t* begin_ns = nullptr;
  // Only where there are drafts.
  uint32_t* draft_numbers = nullptr;  // [max_slots], beside row_slots
  kernels::DraftTable draft_table;
  TokenId* known_tokens = nullptr;  // [max_slots, max_context_tokens]
  TokenId* draft_script = nullptr;  // likewise; only with kScript

  // Of the rows of the decode graphs.
  kernels::DraftRows draft_rows() const { return {.numbers = draft_numbers, .table = draft_table}; }
  int64_t max_context_tokens() const { return max_context_tokens_; }
  kernels::SamplerTables tables() const {
    return {.params = params,
            .list_ids = list_ids,
            .list_values = list_values,
            .token_counts = token_counts};
  }

 private:
  CudaStepMemory() = default;
  void LayOutDevice(const DeviceShape& shape, Arena& arena);
  void LayOutPinned(const CudaModel& model, bool has_staging, Arena& arena);

  int64_t max_context_tokens_ = 0;
  kernels::PinnedBuffer pinned_;
  kernels::DeviceBuffer device_;
};

}  // namespace lockstep::worker
