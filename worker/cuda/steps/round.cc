#include "worker/cuda/steps/round.h"

#include "common/status.h"
#include "kernels/drafts/draft_tokens.h"
#include "kernels/sampling/finish_step.h"

namespace lockstep::worker {
namespace {

absl::Status Draft(const CudaModel& model, const CudaStepMemory& memory, int64_t num_rows) {
  return kernels::DraftTokens(model.stream(), {.row_slots = memory.row_slots,
                                               .rows = memory.draft_rows(),
                                               .num_rows = num_rows,
                                               .vocab_size = model.plan().vocab_size,
                                               .state = model.slots(),
                                               .params = memory.params,
                                               .known_tokens = memory.known_tokens,
                                               .script = memory.draft_script,
                                               .max_context_tokens = memory.max_context_tokens(),
                                               .begin_ns = memory.begin_ns});
}

// No rows, if the round has no drafts.
kernels::DraftRows DraftRowsOf(const CudaStepMemory& memory, const SampledRows& rows) {
  return rows.has_drafts ? memory.draft_rows() : kernels::DraftRows();
}

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
                                             .draft_rows = DraftRowsOf(memory, rows),
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
  batch.draft_rows = DraftRowsOf(memory, rows);
  // A round begins with its first kernel.
  batch.begin_ns = rows.has_drafts ? nullptr : memory.begin_ns;
  if (rows.has_drafts) LOCKSTEP_RETURN_IF_ERROR(Draft(model, memory, rows.num_rows));
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
                              .draft_rows = DraftRowsOf(memory, rows),
                              .tokens = memory.tokens,
                              .statuses = memory.statuses,
                              .descriptions = describes ? memory.descriptions : nullptr,
                              .num_rows = rows.num_rows,
                              .vocab_size = vocab_size,
                              .state = model.slots(),
                              .tables = memory.tables(),
                              .known_tokens = memory.known_tokens,
                              .max_context_tokens = memory.max_context_tokens(),
                              .begin_ns = batch.num_tokens > 0 ? memory.begin_ns : nullptr,
                              .ring = memory.ring});
}

}  // namespace lockstep::worker
