#include "worker/cuda/steps/step_runner.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::worker {
namespace {

// After this many polls without a result, ask the driver if the device still works.
constexpr uint32_t kPollsBetweenChecks = 16384;
// Decode graphs for contexts up to this length are captured before serving. Graphs for longer
// contexts are captured when a step first needs them.
constexpr int64_t kPreparedKeys = 4096;
// If no pass ends for this long, the device hangs.
constexpr std::chrono::seconds kHungAfter(60);
// Capturing the graphs may take a rank minutes. A rank that takes longer than this hangs.
constexpr std::chrono::minutes kSetUpPatience(10);

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStepRunner>> CudaStepRunner::Create(
    CudaModel& model, const ExecutorLimits& limits, uint64_t incarnation,
    CudaDraftSource draft_source) {
  CudaDrafts drafts;
  if (draft_source != CudaDraftSource::kNone && limits.max_draft_tokens > 0) {
    drafts = {draft_source, limits.max_draft_tokens};
  }
  const int64_t max_graph_rows =
      std::min({limits.max_slots, model.info().max_logits_rows, model.info().max_step_tokens});
  Ranks ranks(static_cast<size_t>(model.num_ranks()));
  std::vector<absl::Status> statuses(ranks.size());
  const auto create = [&](int rank) -> absl::Status {
    const CudaRankSteps* const first = rank == 0 ? nullptr : ranks.front().get();
    LOCKSTEP_ASSIGN_OR_RETURN(
        ranks[static_cast<size_t>(rank)],
        CudaRankSteps::Create(model.rank(rank), max_graph_rows, drafts, first));
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(create(0));
  model.OnRanks(
      [&](int rank) {
        if (rank > 0) statuses[static_cast<size_t>(rank)] = create(rank);
      },
      kSetUpPatience);
  for (const absl::Status& status : statuses) LOCKSTEP_RETURN_IF_ERROR(status);
  ExecutorLimits announced = limits;
  announced.max_draft_tokens = drafts.max_tokens;
  return std::unique_ptr<CudaStepRunner>(
      new CudaStepRunner(model, announced, incarnation, std::move(ranks)));
}

absl::Status CudaStepRunner::CaptureGraphs() {
  const int64_t max_keys = std::min<int64_t>(kPreparedKeys, bounds().max_context_tokens);
  // For the ranks' call of CountTokens.
  memory().staging[0].count_updates[0] = {.num_known = 1, .num_prompt = 1};
  std::vector<absl::Status> statuses(ranks_.size());
  model_.OnRanks(
      [&](int rank) {
        const auto i = static_cast<size_t>(rank);
        statuses[i] = ranks_[i]->CaptureGraphs(max_keys);
      },
      kSetUpPatience);
  for (const absl::Status& status : statuses) LOCKSTEP_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

CudaStepRunner::CudaStepRunner(CudaModel& model, const ExecutorLimits& limits, uint64_t incarnation,
                               Ranks ranks)
    : model_(model),
      mirror_({model.info(), limits}, incarnation),
      table_(mirror_.table()),
      ranks_(std::move(ranks)),
      builder_(model.info(), bounds().max_slots),
      writer_(static_cast<uint32_t>(model.slots().num_slots), memory()),
      shared_prefixes_(bounds().kv_groups.front().num_blocks),
      decode_rows_(bounds().kv_groups.front().num_blocks),
      generations_(bounds().max_slots),
      failed_generations_(bounds().max_slots, UINT64_MAX),
      last_serial_(bounds().max_slots),
      num_kept_drafts_(bounds().max_slots) {
  LOCKSTEP_CHECK(bounds().max_slots <= model.slots().num_slots, "{} slots of {}",
                 bounds().max_slots, model.slots().num_slots);
}

void CudaStepRunner::Reset() {
  LOCKSTEP_CHECK(records_.empty(), "a lease changes with {} steps under way", records_.size());
  OnRanks([](CudaRankSteps& rank) { return rank.EnqueueClear(); });
  last_end_ns_ = 0;
}

void CudaStepRunner::BeginLease(uint64_t epoch) {
  // CUDA keeps a current device for each thread. This is the runner's first call on the executor
  // thread.
  model_.ExpectOk(kernels::CudaStatus(cudaSetDevice(model_.device()), "cudaSetDevice"));
  Reset();
  mirror_.BeginLease(epoch);
}

void CudaStepRunner::EndLease() {
  Reset();
  mirror_.EndLease();
}

void CudaStepRunner::Submit(const v1::StepRequest& step) {
  if (free_records_.empty()) free_records_.push_back(std::make_unique<CudaStepRecord>());
  records_.push_back(std::move(free_records_.back()));
  free_records_.pop_back();
  CudaStepRecord& record = *records_.back();
  record.Clear();
  if (!mirror_.Accept(step, record.result, record.stats, &CudaSlotWriter::Check)) return;

  if (step.resync()) OnRanks([](CudaRankSteps& rank) { return rank.EnqueueClear(); });
  for (const v1::StartedSlot& started : step.started()) {
    AwaitSlot(started.slot());
    ++generations_[started.slot()];
  }
  const auto start_row = [&](SlotId slot, uint32_t num_tokens, uint32_t draft_limit) {
    CudaStepRecord::Row& row = record.rows.emplace_back();
    row.slot = slot;
    row.generation = generations_[slot];
    row.num_left = num_tokens;
    row.draft_limit = draft_limit;
  };
  mirror_.Apply(step, record.result, record.stats, start_row);

  // The step's changes of slots travel with its first pass. Even a step without rows has one pass.
  OpenPass();
  const SlotChanges& changes = writer_.Stage(step, table_, Staging());
  if (!changes.empty()) {
    OnRanks([&](CudaRankSteps& rank) { return rank.EnqueueSlotChanges(Staging(), changes); });
  }
  for (const v1::StartedSlot& started : step.started()) {
    last_serial_[started.slot()] = next_serial_;
  }
  const uint32_t num_iterations = std::max(1u, step.decode_iterations());
  for (uint32_t i = 0; i < num_iterations; ++i) {
    if (IsPureDecode(record)) {
      EnqueueDecode(record);
    } else {
      EnqueueMixed(record);
    }
    // If another iteration follows, every row that still runs decodes one token.
    for (CudaStepRecord::Row& row : record.rows) row.num_left = table_[row.slot].inert() ? 0 : 1;
  }
}

bool CudaStepRunner::IsPureDecode(const CudaStepRecord& record) {
  return !record.rows.empty() && record.stats.num_prefill_rows == 0 &&
         record.rows.size() <= static_cast<size_t>(graphs().max_rows());
}

bool CudaStepRunner::SetDraftScript(SlotId slot, std::span<const TokenId> script) {
  if (memory().draft_script == nullptr) return false;
  OnRanks([&](CudaRankSteps& rank) { return rank.EnqueueScript(slot, script); });
  return true;
}

// --- passes ---

void CudaStepRunner::OpenPass() {
  if (next_serial_ == num_harvested_) last_progress_ = std::chrono::steady_clock::now();
  while (next_serial_ - num_harvested_ >= CudaStepMemory::kNumPasses) Harvest();
  open_pass_ = PassRecord();
  open_pass_.serial = next_serial_++;
}

void CudaStepRunner::ClosePass(CudaStepRecord& record) {
  record.passes.push_back(std::move(open_pass_));
}

void CudaStepRunner::EnqueueMixed(CudaStepRecord& record) {
  builder_.Clear();
  // To open a pass may take results, which change the mirror. So none is opened while the builder
  // has rows.
  bool is_open = record.passes.empty();
  for (size_t i = 0; i < record.rows.size(); ++i) {
    CudaStepRecord::Row& row = record.rows[i];
    while (row.num_left > 0) {
      if (!is_open) OpenPass();
      is_open = true;
      row.num_left -=
          builder_.Add(table_[row.slot], row.slot, static_cast<uint32_t>(i), row.num_left);
      if (row.num_left == 0) continue;
      EnqueuePass(record);
      is_open = false;
    }
  }
  if (is_open) EnqueuePass(record);
}

void CudaStepRunner::EnqueuePass(CudaStepRecord& record) {
  const ForwardBatch batch = builder_.batch();
  const PassStaging& staging = Staging();
  staged_rows_.clear();
  shared_prefixes_.Clear();
  int64_t max_decode_keys = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const SlotId slot = builder_.slots()[i];
    const ForwardRow& row = batch.rows[i];
    const bool decodes = row.num_tokens == 1 && row.first_position + 1 == table_[slot].num_known();
    staged_rows_.push_back({.slot = slot, .decodes = decodes});
    if (!decodes) continue;
    shared_prefixes_.Add(table_[slot].blocks(), table_[slot].num_known());
    max_decode_keys = std::max<int64_t>(max_decode_keys, MaxKeysOf(table_[slot], 0));
  }
  CudaBatch staged =
      StageBatch(batch, staged_rows_, model_.prefill_planner(), staging.batch, token_places_);
  // The batch knows positions only as far as they are reported.
  staged.max_decode_keys = max_decode_keys;
  staged.decode_rows_share = shared_prefixes_.AreMany();
  StageLogits(record, staged);
  open_pass_.computes = !batch.token_ids.empty();
  const PassSampling sampling = {.num_samples = static_cast<int64_t>(open_pass_.samples.size()),
                                 .num_prompts = static_cast<int64_t>(open_pass_.prompts.size()),
                                 .describes = open_pass_.describes};
  OnRanks([&](CudaRankSteps& rank) { return rank.EnqueuePass(staged, staging, sampling); });
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const SlotId slot = builder_.slots()[i];
    const uint32_t end = batch.rows[i].first_position + batch.rows[i].num_tokens;
    AdvanceMirror(slot, batch.rows[i].num_tokens, end == table_[slot].num_known());
  }
  builder_.Clear();
  ClosePass(record);
}

void CudaStepRunner::StageLogits(CudaStepRecord& record, CudaBatch& staged) {
  const PassStaging& staging = Staging();
  const std::span<const LogitsUse> uses = builder_.logits_uses();
  const std::span<const uint32_t> tokens = builder_.batch().logits_tokens;
  uint32_t num_rows = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].samples) continue;
    staging.logits_tokens[num_rows] = token_places_[tokens[i]];
    staging.sample_slots[num_rows++] = uses[i].slot;
    record.rows[uses[i].row].samples = true;
    open_pass_.samples.push_back({uses[i], /*draft_number=*/0});
    open_pass_.samples.back().position -= num_kept_drafts_[uses[i].slot];
    open_pass_.describes = open_pass_.describes || table_[uses[i].slot].num_logprobs() >= 0;
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].samples) continue;
    const Slot& slot = table_[uses[i].slot];
    const size_t prompt_row = open_pass_.prompts.size();
    staging.logits_tokens[num_rows++] = token_places_[tokens[i]];
    staging.prompt_tokens[prompt_row] = slot.known_tokens()[uses[i].position];
    staging.prompt_num_best[prompt_row] = slot.num_prompt_logprobs();
    open_pass_.prompts.push_back(uses[i]);
  }
  staged.logits_tokens = staging.logits_tokens;
  staged.num_logits_rows = num_rows;
}

void CudaStepRunner::AdvanceMirror(SlotId slot_id, uint32_t num_tokens, bool samples) {
  Slot& slot = table_[slot_id];
  slot.Advance(num_tokens);
  if (!samples) return;
  slot.AppendOnDevice();
  if (slot.num_known() >= slot.max_total_tokens()) slot.MakeInert();
}

// --- results ---

bool CudaStepRunner::IsReported(uint64_t serial) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [serial](const auto& rank) { return rank->IsReported(serial); });
}

void CudaStepRunner::AwaitSlot(SlotId slot) {
  while (last_serial_[slot] > num_harvested_) Harvest();
}

void CudaStepRunner::CheckDevice(uint64_t serial) {
  if (++polls_since_check_ < kPollsBetweenChecks) return;
  polls_since_check_ = 0;
  // The error of the device comes seconds later.
  const std::string hang = model_.HangReport();
  LOCKSTEP_CHECK(hang.empty(), "pass {} has not ended{}", serial, hang);
  bool is_busy = false;
  for (const std::unique_ptr<CudaRankSteps>& rank : ranks_) {
    const auto error = static_cast<cudaError_t>(rank->QueryDevice());
    if (error == cudaErrorNotReady) {
      is_busy = true;
    } else {
      model_.ExpectOk(kernels::CudaStatus(error, "a step on the device"));
    }
  }
  if (!is_busy) {
    LOCKSTEP_CHECK(IsReported(serial), "pass {} is done, but its result has not come", serial);
    return;
  }
  LOCKSTEP_CHECK(std::chrono::steady_clock::now() - last_progress_ < kHungAfter,
                 "the device has not finished pass {} within {} s", serial, kHungAfter.count());
}

void CudaStepRunner::Harvest() {
  for (const std::unique_ptr<CudaStepRecord>& record : records_) {
    while (!record->done()) {
      const PassRecord& pass = record->passes[record->num_harvested];
      if (!IsReported(pass.serial)) return CheckDevice(pass.serial);
      TakePass(pass, *record);
      ++num_harvested_;
    }
  }
}

void CudaStepRunner::TakePass(const PassRecord& pass, CudaStepRecord& record) {
  ended_rows_.clear();
  record.TakePass({.ring = memory().ring,
                   .staging = StagingOf(pass.serial),
                   .failed_generations = failed_generations_,
                   .num_kept_drafts = num_kept_drafts_,
                   .last_end_ns = last_end_ns_},
                  pass, ended_rows_);
  if (pass.computes) last_end_ns_ = record.end_ns;
  last_progress_ = std::chrono::steady_clock::now();
  for (const PassRecord::Drafts& drafts : pass.drafts) {
    TakeDrafts(record.rows[drafts.row], drafts.num_drafts);
  }
  for (const CudaStepRecord::EndedRow& row : ended_rows_) {
    if (row.failed_in_prompt) failed_generations_[row.slot] = row.generation;
    // Another sequence may have the slot by now.
    if (generations_[row.slot] == row.generation) table_[row.slot].MakeInert();
  }
}

void CudaStepRunner::TakeDrafts(const CudaStepRecord::Row& row, uint32_t num_drafts) {
  if (generations_[row.slot] != row.generation) return;  // another sequence has the slot by now
  // A step with drafts has one pass. Its first kept token is no draft, and counts already.
  const auto num_kept = static_cast<uint32_t>(std::max<size_t>(row.sampled.size(), 1) - 1);
  Slot& slot = table_[row.slot];
  slot.TakeDrafts(num_drafts, num_kept);
  num_kept_drafts_[row.slot] += num_kept;
  // It has ended, or ends with the rounds under way.
  if (slot.num_known() >= slot.max_total_tokens()) slot.MakeInert();
}

bool CudaStepRunner::TakeResult(v1::StepResult* result, StepStats* stats) {
  if (records_.empty()) return false;
  Harvest();
  CudaStepRecord& record = *records_.front();
  if (!record.done()) return false;
  record.Report(failed_generations_);
  record.stats.num_live_slots = table_.CountLive();
  result->Swap(&record.result);
  *stats = record.stats;
  free_records_.push_back(std::move(records_.front()));
  records_.pop_front();
  return true;
}

}  // namespace lockstep::worker
