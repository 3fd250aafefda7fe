// What a row of the model worker computes and samples.
#include <algorithm>
#include <utility>

#include "common/hash.h"
#include "common/status.h"
#include "tests/router/core/model/model_worker.h"
#include "tests/router/core/model/reference_model.h"

namespace lockstep::router::testing {

absl::Status ModelWorker::RunRowOnce(const StepPlan& plan, const RunRow& row, const Faults& faults,
                                     Executed& executed) {
  Slot& slot = *slots_[row.slot];
  RowOutcome outcome;
  outcome.slot = row.slot;
  if (slot.inert) {
    ++counts_.inert_rows;
    outcome.was_inert = true;
    executed.num_computed.push_back(slot.num_computed);
    executed.outcome.rows.push_back(std::move(outcome));
    return absl::OkStatus();
  }
  const bool fails = faults.failing_slot == row.slot;
  const Drafts drafts = Draw(slot, row, faults);
  outcome.num_drafted = drafts.num_drafted;
  const uint32_t first_draft = slot.num_computed + 1;
  const uint32_t most_kept = plan.decode_iterations + drafts.num_right;
  const uint32_t num_kept =
      fails ? std::min(faults.num_tokens_before_failure, most_kept - 1) : most_kept;
  for (uint32_t i = 0; i < num_kept && !slot.inert; ++i) {
    const uint32_t start = slot.num_computed;
    const uint32_t end = start + row.num_tokens;
    LOCKSTEP_RETURN_IF_ERROR(Compute(slot, end, executed.writes));
    AddPromptLogprobs(slot, start, end, outcome);
    if (end < slot.num_known()) continue;
    if (drafts.waits) {
      --slot.num_computed;
      ++counts_.waiting_rows;
      break;
    }
    Sample(slot, outcome);
  }
  if (drafts.num_drafted > 0) {
    counts_.right_drafts += outcome.tokens.empty() ? 0 : outcome.tokens.size() - 1;
    LOCKSTEP_RETURN_IF_ERROR(WriteDrafts(slot, std::max(slot.num_computed, first_draft),
                                         first_draft + drafts.num_drafted, executed.writes));
  }
  executed.num_computed.push_back(slot.num_computed);
  if (fails && !slot.inert) {
    slot.inert = true;
    outcome.prompt_logprobs.clear();
    outcome.error = MakeError(absl::StatusCode::kAborted, "row failed by the model worker");
  }
  if (outcome.tokens.empty()) ++counts_.unsampled_rows;
  // A row that has nothing to say is left out.
  if (!outcome.tokens.empty() || !outcome.prompt_logprobs.empty() || !outcome.error.ok()) {
    executed.outcome.rows.push_back(std::move(outcome));
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::Compute(Slot& slot, uint32_t end, std::vector<KvWrite>& writes) {
  const std::string& salt = slot.request->prefix_root.salt;
  const uint32_t size = limits_.block_size_tokens();
  for (uint32_t group = 0; group < slot.tables.size(); ++group) {
    const std::vector<BlockId>& table = slot.tables[group];
    for (uint32_t position = slot.num_computed; position < end; ++position) {
      const BlockId block = table[position / size];
      if (position == slot.num_computed || position % size == 0) {
        LOCKSTEP_RETURN_IF_ERROR(CheckUnshared(slot, group, block));
      }
      const KvCell cell{slot.text_hashes[position], salt};
      CellOf(slot, group, position) = cell;
      writes.push_back({.group = group, .block = block, .offset = position % size, .cell = cell});
    }
    for (uint32_t position = FirstRead(limits_.kv_groups[group], slot.num_computed); position < end;
         ++position) {
      if (table[position / size] != kNoBlock &&
          CellOf(slot, group, position) == KvCell{slot.text_hashes[position], salt}) {
        continue;
      }
      return Internal("request {}, group {}: the KV read at position {} of {} is not of its text",
                      slot.request->key, group, position, end);
    }
  }
  slot.num_computed = end;
  return absl::OkStatus();
}

ModelWorker::Drafts ModelWorker::Draw(const Slot& slot, const RunRow& row, const Faults& faults) {
  const uint64_t draw = CombineHashes(faults.draft_seed, row.slot);
  const uint32_t most = std::min(row.max_drafts, slot.max_total_tokens() - slot.num_known() - 1);
  Drafts drafts;
  drafts.waits = slot.request->rows_may_wait && faults.rows_wait.value_or((draw >> 32) % 3 == 0);
  if (faults.num_right_drafts.has_value()) {
    drafts.num_drafted = most;
    drafts.num_right = std::min(*faults.num_right_drafts, most);
  } else {
    drafts.num_drafted = static_cast<uint32_t>(draw % (most + 1));
    drafts.num_right = static_cast<uint32_t>((draw >> 16) % (drafts.num_drafted + 1));
  }
  return drafts;
}

absl::Status ModelWorker::WriteDrafts(const Slot& slot, uint32_t first, uint32_t end,
                                      std::vector<KvWrite>& writes) {
  const KvCell wrong{~uint64_t{0}, slot.request->prefix_root.salt};
  const uint32_t size = limits_.block_size_tokens();
  for (uint32_t position = first; position < end; ++position) {
    ++counts_.wrong_drafts;
    for (uint32_t group = 0; group < slot.tables.size(); ++group) {
      const BlockId block = slot.tables[group][position / size];
      LOCKSTEP_RETURN_IF_ERROR(CheckUnshared(slot, group, block));
      CellOf(slot, group, position) = wrong;
      writes.push_back({.group = group, .block = block, .offset = position % size, .cell = wrong});
    }
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::CheckUnshared(const Slot& writer, uint32_t group, BlockId block) const {
  const KvGroup& description = limits_.kv_groups[group];
  for (const std::optional<Slot>& slot : slots_) {
    if (!slot.has_value() || &*slot == &writer || slot->inert) continue;
    const std::vector<BlockId>& table = slot->tables[group];
    const uint32_t first_read =
        FirstRead(description, slot->num_computed) / description.block_size_tokens;
    for (size_t i = first_read; i < table.size(); ++i) {
      if (table[i] != block) continue;
      return Internal("request {}, group {}: writes block {}, which request {} reads",
                      writer.request->key, group, block, slot->request->key);
    }
  }
  return absl::OkStatus();
}

void ModelWorker::Sample(Slot& slot, RowOutcome& outcome) {
  const Request& request = *slot.request;
  const uint64_t hash = slot.text_hashes.back();
  const auto num_prompt = static_cast<uint32_t>(request.prompt_tokens.size());
  const TokenId token = NextToken(request, slot.sample_index, hash, slot.num_known() - num_prompt);
  slot.Append(token);
  outcome.tokens.push_back(token);
  if (const int32_t num_best = request.sampling.num_logprobs; num_best >= 0) {
    outcome.logprobs.push_back(LogprobsOf(hash, token, num_best));
  }
  if (std::ranges::count(request.sampling.stop_token_ids, token) > 0) {
    outcome.stopped = StopCause::kStopToken;
  } else if (slot.num_known() == slot.max_total_tokens()) {
    outcome.stopped = StopCause::kLength;
  }
  slot.inert = outcome.stopped != StopCause::kNone;
}

// The logits of position p are about the token at p + 1.
void ModelWorker::AddPromptLogprobs(const Slot& slot, uint32_t start, uint32_t end,
                                    RowOutcome& outcome) {
  if (slot.first_prompt_logprob == 0) return;
  const auto num_prompt = static_cast<uint32_t>(slot.request->prompt_tokens.size());
  for (uint32_t position = start + 1; position <= end && position < num_prompt; ++position) {
    if (position < slot.first_prompt_logprob) continue;
    if (outcome.prompt_logprobs.empty()) outcome.first_prompt_logprob = position;
    outcome.prompt_logprobs.push_back(LogprobsOf(slot.text_hashes[position - 1],
                                                 slot.known[position],
                                                 slot.request->sampling.num_prompt_logprobs));
  }
}

}  // namespace lockstep::router::testing
