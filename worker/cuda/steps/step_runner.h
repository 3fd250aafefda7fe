#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/decode_rows.h"
#include "worker/cuda/steps/rank_steps.h"
#include "worker/cuda/steps/shared_prefixes.h"
#include "worker/cuda/steps/slot_writer.h"
#include "worker/cuda/steps/step_drafts.h"
#include "worker/cuda/steps/step_memory.h"
#include "worker/cuda/steps/step_record.h"
#include "worker/steps/batch_builder.h"
#include "worker/steps/step_mirror.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// The StepRunner of a CUDA device. Submit validates a step, applies it to the mirror and enqueues
// its passes. It does not wait for earlier passes: sampled tokens, positions and stops live on the
// device, and the mirror counts a token as soon as it is enqueued. Results come back through a ring
// in pinned memory that TakeResult polls. If a step has only decode rows, each iteration is one
// graph launch. A CUDA error ends the process, and the router resumes its sequences elsewhere.
//
// In such a step, rows may have drafts. The device drafts, computes all drafts of a row in one pass
// and keeps the right ones (kernels/sampling/finish_step.h). Until the result is there, the mirror
// counts one token of the row as known, and Slot::max_unreported() says how many more there may be.
//
// In a tensor-parallel group every rank runs every pass, enqueued by a thread of its own. The
// mirror and the staging exist once. The results are rank 0's. A pass counts as done when all ranks
// have done it, because all read its staging.
class CudaStepRunner final : public StepRunner {
 public:
  // `model` is rank 0's and outlives the runner. `limits` must fit the model. Without a source of
  // drafts the runner announces none, for any `limits`.
  static absl::StatusOr<std::unique_ptr<CudaStepRunner>> Create(
      CudaModel& model, const ExecutorLimits& limits, uint64_t incarnation,
      CudaDraftSource draft_source = CudaDraftSource::kNone);

  // Captures the decode graphs of usual contexts ahead of serving; others are captured when needed.
  absl::Status CaptureGraphs();

  const StepBounds& bounds() const override { return mirror_.bounds(); }
  void BeginLease(uint64_t epoch) override;
  void EndLease() override;
  void Submit(const v1::StepRequest& step) override;
  size_t num_pending() const override { return records_.size(); }
  bool TakeResult(v1::StepResult* result, StepStats* stats) override;

  // True with kScript.
  bool SetDraftScript(SlotId slot, std::span<const TokenId> script) override;

 private:
  using Ranks = std::vector<std::unique_ptr<CudaRankSteps>>;

  CudaStepRunner(CudaModel& model, const ExecutorLimits& limits, uint64_t incarnation, Ranks ranks);

  // Calls body(rank) for every rank at once, on its thread. An error ends the process.
  template <typename Body>
  void OnRanks(const Body& body) {
    model_.OnRanks([&](int rank) { model_.ExpectOk(body(*ranks_[static_cast<size_t>(rank)])); });
  }

  void Reset();
  bool IsPureDecode(const CudaStepRecord& record);

  // One iteration as a graph launch.
  void EnqueueDecode(CudaStepRecord& record);
  // Lays out the rows of an iteration, with drafts as far as there is room in a graph.
  void AddDecodeRows(CudaStepRecord& record);
  // Adds the record's row with this number. Returns how many rows of drafts it has.
  uint32_t AddDecodeRow(CudaStepRecord& record, uint32_t index, uint32_t max_drafts);
  // Every row's tokens once, in as many passes as necessary. Drafts nothing.
  void EnqueueMixed(CudaStepRecord& record);
  // Enqueues what the builder has as the open pass.
  void EnqueuePass(CudaStepRecord& record);
  // Rows that sample come first, then prompt tokens whose log-probability is wanted.
  void StageLogits(CudaStepRecord& record, CudaBatch& staged);
  // Updates the mirror once a row's tokens are enqueued.
  void AdvanceMirror(SlotId slot, uint32_t num_tokens, bool samples);

  // Takes the next serial number. Waits until its staging and its place in the ring are free.
  void OpenPass();
  void ClosePass(CudaStepRecord& record);
  const PassStaging& Staging() const { return StagingOf(open_pass_.serial); }
  const PassStaging& StagingOf(uint64_t serial) const {
    return memory().staging[serial % CudaStepMemory::kNumPasses];
  }
  bool IsReported(uint64_t serial) const;
  // Waits until no pass under way reads the slot's pinned memory.
  void AwaitSlot(SlotId slot);
  // Moves all reported results into the records.
  void Harvest();
  void TakePass(const PassRecord& pass, CudaStepRecord& record);
  // Corrects the mirror for a row that had drafts.
  void TakeDrafts(const CudaStepRecord::Row& row, uint32_t num_drafts);
  // Call if a pass has not been reported. Once in many calls it asks the driver, and dies if the
  // device has failed.
  void CheckDevice(uint64_t serial);

  // Rank 0's: the staging of all ranks, and the results.
  const CudaStepMemory& memory() const { return ranks_.front()->memory(); }
  DecodeGraphs& graphs() { return ranks_.front()->graphs(); }

  CudaModel& model_;
  StepMirror mirror_;
  SlotTable& table_;  // the mirror's
  const Ranks ranks_;
  BatchBuilder builder_;
  CudaSlotWriter writer_;
  SharedPrefixes shared_prefixes_;  // of the pass at hand
  DecodeRows decode_rows_;          // of the iteration at hand

  std::vector<uint64_t> generations_;  // [max_slots]: sequences that have started in the slot
  std::vector<uint64_t>
      failed_generations_;  // [max_slots]: the generation that failed in its prompt
  std::vector<uint64_t>
      last_serial_;  // [max_slots]: last pass that reads the slot's memory, plus 1
  std::vector<uint32_t> num_kept_drafts_;  // [max_slots]: reported, modulo 2^32
  std::vector<SlotId> graph_rows_;         // what the ranks' row_slots hold, padding included
  std::vector<StagedRow> staged_rows_;
  std::vector<uint32_t> token_places_;
  std::vector<CudaStepRecord::EndedRow> ended_rows_;
  PassRecord open_pass_;
  uint64_t next_serial_ = 0;
  uint64_t num_harvested_ = 0;
  uint64_t last_end_ns_ = 0;  // of the lease's last reported pass; 0: none
  uint32_t polls_since_check_ = 0;
  std::chrono::steady_clock::time_point last_progress_;  // of passes under way
  std::deque<std::unique_ptr<CudaStepRecord>> records_;
  std::vector<std::unique_ptr<CudaStepRecord>> free_records_;
};

}  // namespace lockstep::worker
