#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "lockstep/worker/v1/worker.pb.h"

// The common result format of all step runners.
namespace lockstep::worker {

// The outcome of one row of a step.
struct RowResult {
  SlotId slot = 0;
  bool stopped = false;
  v1::StopCause stop_cause = v1::STOP_CAUSE_UNSPECIFIED;
  std::vector<TokenId> sampled;  // the tokens that the row keeps in this step: none or several
  uint32_t num_drafted = 0;      // tokens that were drafted and compared
  std::vector<v1::TokenLogprobs> logprobs;  // of `sampled`, if requested; the report takes them
};

// Adds tokens and stops of the rows [begin, end), which derive from RowResult. Leaves out rows that
// keep no token: pieces of a prompt, and waiting rows.
template <typename Iterator>
void ReportRows(Iterator begin, Iterator end, v1::StepResult& result) {
  const bool one_each =
      std::all_of(begin, end, [](const RowResult& row) { return row.sampled.size() <= 1; });
  const bool none_drafted =
      std::all_of(begin, end, [](const RowResult& row) { return row.num_drafted == 0; });
  for (Iterator row = begin; row != end; ++row) {
    if (row->sampled.empty()) continue;
    result.add_sampled_slots(row->slot);
    if (!one_each) result.add_sampled_counts(static_cast<uint32_t>(row->sampled.size()));
    if (!none_drafted) result.add_drafted_counts(row->num_drafted);
    result.mutable_token_ids()->Add(row->sampled.begin(), row->sampled.end());
    for (v1::TokenLogprobs& entry : row->logprobs) *result.add_logprobs() = std::move(entry);
    if (row->stopped) {
      result.add_stopped_slots(row->slot);
      result.add_stop_causes(row->stop_cause);
    }
  }
}

inline void ReportError(SlotId slot, const absl::Status& status, v1::StepResult& result) {
  v1::SlotError* const error = result.add_errors();
  error->set_slot(slot);
  error->set_code(static_cast<uint32_t>(status.code()));
  error->set_message(Message(status));
}

inline void ReportRefusal(const absl::Status& status, v1::StepResult& result) {
  result.mutable_refusal()->set_code(static_cast<uint32_t>(status.code()));
  result.mutable_refusal()->set_message(Message(status));
}

}  // namespace lockstep::worker
