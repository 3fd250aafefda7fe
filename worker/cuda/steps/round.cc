#include "worker/cuda/steps/round.h"

#include "common/status.h"
#include "kernels/sampling/finish_step.h"

namespace lockstep::worker {
namespace {

absl::Status Sample(const CudaModel& model, const CudaStepMemory& memory, const SampledRows& rows,
                    bool describes) {
  const int64_t vocab_size = model.plan().vocab_size;
  if (rows.num_rows > 0) {
    LOCKSTEP_RETURN_IF_ERROR(
        kernels::SampleRows(model.stream(), {.logits = model.logits(),
                                             .row_stride = vocab_size,
                                             .num_rows = rows.num_rows,
                                             .vocab_size = vocab_size,
                                             .row_slots = rows.slots,
                                             .all_plain_greedy = rows.all_plain_greedy,
                                             .state = model.slots(),
                                             .tables = memory.tables(),
                                             .tokens = memory.tokens,
                                             .statuses = memory.statuses,
                                             .num_best = describes ? memory.num_best : nullptr}));
  }
  if (!describes) return absl::OkStatus();
  return kernels::DescribeRows(model.stream(), {.logits = model.logits(),
                                                .row_stride = vocab_size,
                                                .num_rows = rows.num_rows,
                                                .vocab_size = vocab_size,
                                                .tokens = memory.tokens,
                                                .num_best = memory.num_best,
                                                .descriptions = memory.descriptions});
}

}  // namespace

absl::Status EnqueueRound(CudaModel& model, const CudaStepMemory& memory, CudaBatch batch,
                          const SampledRows& rows, const DescribedPrompts& prompts) {
  const int64_t vocab_size = model.plan().vocab_size;
  const bool is_first = model.tensor_rank().rank == 0;
  const bool describes = is_first && rows.describes;
  batch.begin_ns = memory.begin_ns;
  LOCKSTEP_RETURN_IF_ERROR(model.Enqueue(batch));
  if (is_first && prompts.num_rows > 0) {
    LOCKSTEP_RETURN_IF_ERROR(kernels::DescribeRows(
        model.stream(), {.logits = model.logits() + rows.num_rows * vocab_size,
                         .row_stride = vocab_size,
                         .num_rows = prompts.num_rows,
                         .vocab_size = vocab_size,
                         .tokens = prompts.tokens,
                         .num_best = prompts.num_best,
                         .descriptions = prompts.descriptions}));
  }
  LOCKSTEP_RETURN_IF_ERROR(Sample(model, memory, rows, describes));
  return kernels::FinishStep(model.stream(),
                             {.row_slots = rows.slots,
                              .tokens = memory.tokens,
                              .statuses = memory.statuses,
                              .descriptions = describes ? memory.descriptions : nullptr,
                              .num_rows = rows.num_rows,
                              .vocab_size = vocab_size,
                              .state = model.slots(),
                              .tables = memory.tables(),
                              .begin_ns = batch.num_tokens > 0 ? memory.begin_ns : nullptr,
                              .ring = memory.ring});
}

}  // namespace lockstep::worker
