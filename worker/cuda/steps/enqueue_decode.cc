// How CudaStepRunner enqueues a step of decode rows: as one graph launch for each iteration.
#include <algorithm>

#include "common/status.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::worker {

void CudaStepRunner::AddDecodeRows(CudaStepRecord& record) {
  decode_rows_.Clear();
  auto room =
      static_cast<uint32_t>(graphs().max_rows()) - static_cast<uint32_t>(record.rows.size());
  for (uint32_t i = 0; i < record.rows.size(); ++i) {
    room -= AddDecodeRow(record, i, std::min(room, record.rows[i].draft_limit));
  }
}

uint32_t CudaStepRunner::AddDecodeRow(CudaStepRecord& record, uint32_t index, uint32_t max_drafts) {
  CudaStepRecord::Row& row = record.rows[index];
  const Slot& slot = table_[row.slot];
  row.samples = true;
  uint32_t num_drafts = 0;
  if (failed_generations_[row.slot] == row.generation) {
    // The device does not know that a row failed in its prompt. It would go on, with more keys than
    // the graph is for.
    decode_rows_.AddPadding();
  } else if (slot.inert()) {
    decode_rows_.AddEnded(row.slot);  // in the meantime
  } else {
    num_drafts = MaxDraftsOf(slot, max_drafts);
    decode_rows_.AddRunning(row.slot, slot, num_drafts);
  }
  for (uint32_t i = 0; i <= num_drafts; ++i) {
    open_pass_.samples.push_back({{.slot = row.slot,
                                   .row = index,
                                   .position = slot.num_known() - num_kept_drafts_[row.slot] + i,
                                   .samples = true},
                                  i});
  }
  if (num_drafts > 0) open_pass_.drafts.push_back({.row = index, .num_drafts = num_drafts});
  return num_drafts;
}

void CudaStepRunner::EnqueueDecode(CudaStepRecord& record) {
  if (!record.passes.empty()) OpenPass();
  AddDecodeRows(record);
  const DecodeGraphs::Iteration iteration = {
      .num_rows = decode_rows_.num_rows(),
      .max_keys = decode_rows_.max_keys(),
      .rows_share = decode_rows_.rows_share(),
      .has_drafts = decode_rows_.has_drafts(),
      .sampling = {.describes = decode_rows_.describes(),
                   .all_plain_greedy = decode_rows_.all_plain_greedy()}};
  const int64_t bucket = graphs().RowBucket(iteration.num_rows);
  decode_rows_.PadTo(static_cast<size_t>(bucket));
  // Which rows are of drafts follows from the slots.
  const bool has_new_rows = decode_rows_.slots() != graph_rows_;
  if (has_new_rows) {
    std::ranges::copy(decode_rows_.slots(), Staging().batch.decode_slots);
    std::ranges::copy(decode_rows_.draft_numbers(), Staging().draft_numbers);
    graph_rows_ = decode_rows_.slots();
  }
  open_pass_.describes = iteration.sampling.describes;
  open_pass_.computes = true;
  const size_t num_captured = graphs().num_captured();
  // All ranks capture a graph before one of them runs it: what runs waits for the other ranks.
  if (ranks_.size() > 1 && !graphs().IsCaptured(iteration)) {
    OnRanks([&](CudaRankSteps& rank) { return rank.graphs().Capture(iteration); });
  }
  OnRanks([&](CudaRankSteps& rank) -> absl::Status {
    if (has_new_rows) LOCKSTEP_RETURN_IF_ERROR(rank.EnqueueRows(Staging(), bucket));
    return rank.graphs().Launch(iteration);
  });
  ++record.stats.num_graph_replays;
  record.stats.num_graph_misses += static_cast<uint32_t>(graphs().num_captured() - num_captured);
  for (const CudaStepRecord::Row& row : record.rows) {
    if (!table_[row.slot].inert()) AdvanceMirror(row.slot, 1, /*samples=*/true);
  }
  for (const PassRecord::Drafts& drafts : open_pass_.drafts) {
    table_[record.rows[drafts.row].slot].ExpectDrafts(drafts.num_drafts);
  }
  ClosePass(record);
}

}  // namespace lockstep::worker
