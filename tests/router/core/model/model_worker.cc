#include "tests/router/core/model/model_worker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/status.h"
#include "tests/router/core/model/reference_model.h"

namespace lockstep::router::testing {

void ModelWorker::Slot::Append(TokenId token) {
  text_hashes.push_back(ExtendTextHash(text_hashes.empty() ? 0 : text_hashes.back(), token));
  known.push_back(token);
}

uint32_t ModelWorker::Slot::max_total_tokens() const {
  return static_cast<uint32_t>(request->prompt_tokens.size()) + request->sampling.max_new_tokens;
}

ModelWorker::ModelWorker(const WorkerLimits& limits) : limits_(limits), slots_(limits.max_slots) {
  for (const KvGroup& group : limits.kv_groups) {
    cells_.emplace_back(size_t{group.num_blocks} * group.block_size_tokens);
  }
}

KvCell& ModelWorker::CellOf(const Slot& slot, uint32_t group, uint32_t position) {
  const uint32_t size = limits_.block_size_tokens();
  return cells_[group][size_t{slot.tables[group][position / size]} * size + position % size];
}

absl::Status ModelWorker::Execute(const StepPlan& plan, const Faults& faults, Executed& executed) {
  if (plan.step_id != last_step_id_ + 1) {
    return Internal("step {} follows step {}", plan.step_id, last_step_id_);
  }
  last_step_id_ = plan.step_id;
  executed.outcome.step_id = plan.step_id;
  if (plan.resync != refusing_ && plan.resync) return Internal("resync without a refusal");
  if ((refusing_ && !plan.resync) || faults.refuse) {
    refusing_ = true;
    executed.outcome.refusal = FailedPrecondition("refused by the model worker");
    return absl::OkStatus();
  }
  if (plan.resync) {
    if (!plan.released.empty()) return Internal("resync releases slots that are gone");
    if (plan.repeat_rows) return Internal("resync repeats rows that are gone");
    refusing_ = false;
    ++counts_.resyncs;
    slots_.assign(limits_.max_slots, std::nullopt);
  }
  LOCKSTEP_RETURN_IF_ERROR(ApplyReleased(plan));
  LOCKSTEP_RETURN_IF_ERROR(ApplyStarted(plan));
  return ApplyRows(plan, faults, executed);
}

absl::Status ModelWorker::ApplyReleased(const StepPlan& plan) {
  for (SlotId slot : plan.released) {
    if (slot >= limits_.max_slots) return Internal("released slot {} does not exist", slot);
    if (!slots_[slot].has_value()) return Internal("released slot {} is vacant", slot);
    slots_[slot].reset();
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::CheckStarted(const StartedSlot& started) const {
  const auto fail = [&started](std::string_view what) {
    return Internal("started slot {}: {}", started.slot, what);
  };
  if (started.slot >= limits_.max_slots) return fail("does not exist");
  if (slots_[started.slot].has_value()) return fail("is taken");
  const std::vector<TokenId>& prompt = started.request->prompt_tokens;
  if (started.known_tokens.size() < prompt.size() ||
      !std::equal(prompt.begin(), prompt.end(), started.known_tokens.begin())) {
    return fail("does not begin with its prompt");
  }
  if (started.num_computed_tokens >= started.known_tokens.size()) return fail("nothing to compute");
  if (started.known_tokens.size() >= prompt.size() + started.request->sampling.max_new_tokens) {
    return fail("is complete already");
  }
  if (started.blocks.size() != limits_.kv_groups.size())
    return fail("not one table for each group");
  for (uint32_t group = 0; group < started.blocks.size(); ++group) {
    LOCKSTEP_RETURN_IF_ERROR(CheckBlocks(started, group));
  }
  if (started.request->bypass_prefix_cache && started.num_computed_tokens > 0) {
    return fail("was not to use the prefix cache");
  }
  const uint32_t first = started.first_prompt_logprob;
  if (first > 0 && (first >= prompt.size() || started.num_computed_tokens >= first)) {
    return fail("cannot give the prompt log-probabilities that it is asked for");
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::CheckBlocks(const StartedSlot& started, uint32_t group) const {
  const auto fail = [&](std::string_view what) {
    return Internal("started slot {}, group {}: {}", started.slot, group, what);
  };
  const GroupBlocks& blocks = started.blocks[group];
  const KvGroup& description = limits_.kv_groups[group];
  const uint32_t size = description.block_size_tokens;
  if (blocks.group != group) return fail("the tables are not in order");
  if (size_t{blocks.first} * size > FirstRead(description, started.num_computed_tokens)) {
    return fail("lacks a block that its next token reads");
  }
  if ((blocks.first + blocks.ids.size()) * size < started.num_computed_tokens) {
    return fail("has too few blocks for what is computed");
  }
  std::set<BlockId> seen;
  for (BlockId block : blocks.ids) {
    if (block >= description.num_blocks) return fail("has a block that does not exist");
    if (!seen.insert(block).second) return fail("has a block twice");
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::ApplyStarted(const StepPlan& plan) {
  for (const StartedSlot& started : plan.started) {
    LOCKSTEP_RETURN_IF_ERROR(CheckStarted(started));
    Slot slot{.request = started.request,
              .sample_index = started.sample_index,
              .known = {},
              .text_hashes = {},
              .num_computed = started.num_computed_tokens,
              .tables = {},
              .first_prompt_logprob = started.first_prompt_logprob};
    for (const GroupBlocks& blocks : started.blocks) {
      std::vector<BlockId>& table = slot.tables.emplace_back(blocks.first, kNoBlock);
      table.insert(table.end(), blocks.ids.begin(), blocks.ids.end());
    }
    for (TokenId token : started.known_tokens) slot.Append(token);
    const bool behind = std::ranges::any_of(
        started.blocks, [](const GroupBlocks& blocks) { return blocks.first > 0; });
    if (behind) ++counts_.starts_behind_a_window;
    slots_[started.slot] = std::move(slot);
    counts_.hit_tokens += started.num_computed_tokens;
    if (std::ranges::count(plan.released, started.slot) > 0) ++counts_.slots_reused_at_once;
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::CheckRow(const StepPlan& plan, const RunRow& row) const {
  const Slot& slot = *slots_[row.slot];
  const auto fail = [&row](std::string_view what) {
    return Internal("row of slot {}: {}", row.slot, what);
  };
  if (row.num_tokens == 0) return fail("no tokens");
  if (slot.inert) return absl::OkStatus();
  if (slot.num_computed + row.num_tokens > slot.num_known()) return fail("more than it knows");
  const bool decodes = row.num_tokens == 1 && slot.num_computed + 1 == slot.num_known();
  if (plan.decode_iterations > 1 && !decodes) return fail("does not decode, but is to iterate");
  if (row.max_drafts > limits_.max_draft_tokens) return fail("drafts more than was announced");
  if (row.max_drafts > 0 && (!decodes || plan.decode_iterations > 1)) {
    return fail("does not decode one token, but is to draft");
  }
  const uint32_t num_positions =
      std::min(slot.num_computed + row.num_tokens + plan.decode_iterations - 1 + row.max_drafts,
               slot.max_total_tokens() - 1);
  for (const std::vector<BlockId>& table : slot.tables) {
    if (table.size() * limits_.block_size_tokens() < num_positions) return fail("too few blocks");
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::AppendBlocks(const StepPlan& plan, const RunRow& row) {
  Slot& slot = *slots_[row.slot];
  const uint32_t end =
      slot.num_computed + row.num_tokens + plan.decode_iterations - 1 + row.max_drafts;
  for (const GroupBlocks& grown : row.new_blocks) {
    if (grown.group >= slot.tables.size() || grown.first != slot.tables[grown.group].size()) {
      return Internal("row of slot {}: group {} grows from block {}", row.slot, grown.group,
                      grown.first);
    }
    const KvGroup& group = limits_.kv_groups[grown.group];
    if (group.has_window() && row.num_tokens > 1) ++counts_.grown_windows;
    std::vector<BlockId>& table = slot.tables[grown.group];
    // A block that fell behind the window may come back in another place.
    const size_t first_read = std::min<size_t>(
        FirstRead(group, slot.num_computed) / group.block_size_tokens, table.size());
    for (BlockId block : grown.ids) {
      if (block >= group.num_blocks ||
          std::count(table.begin() + static_cast<ptrdiff_t>(first_read), table.end(), block) > 0) {
        return Internal("row of slot {}: block {} does not exist or comes twice", row.slot, block);
      }
      if (table.size() * group.block_size_tokens >= end) ++counts_.early_blocks;
      table.push_back(block);
    }
  }
  return absl::OkStatus();
}

uint32_t ModelWorker::num_occupied_slots() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(slots_, [](const auto& slot) { return slot.has_value(); }));
}

absl::Status ModelWorker::CheckRowless(const StepPlan& plan) {
  if (!plan.started.empty()) return Internal("a step that starts, but runs nothing");
  if (plan.released.empty() && !plan.resync) return Internal("a step that does nothing");
  if (plan.repeat_rows) return Internal("a step without rows repeats them");
  return absl::OkStatus();
}

absl::Status ModelWorker::ApplyRows(const StepPlan& plan, const Faults& faults,
                                    Executed& executed) {
  if (plan.rows.empty()) LOCKSTEP_RETURN_IF_ERROR(CheckRowless(plan));
  std::vector<SlotId> rows;
  uint64_t num_tokens = 0;
  for (const RunRow& row : plan.rows) {
    if (row.slot >= limits_.max_slots || !slots_[row.slot].has_value()) {
      return Internal("row of slot {}: it is vacant", row.slot);
    }
    if (std::ranges::count(rows, row.slot) > 0) return Internal("slot {} runs twice", row.slot);
    rows.push_back(row.slot);
    num_tokens += row.num_tokens;
  }
  for (const StartedSlot& started : plan.started) {
    if (std::ranges::count(rows, started.slot) == 0) {
      return Internal("started slot {} does not run", started.slot);
    }
  }
  if (num_tokens > limits_.max_step_tokens) return Internal("{} tokens in a step", num_tokens);
  if (plan.decode_iterations == 0 || plan.decode_iterations > limits_.max_decode_iterations) {
    return Internal("{} decode iterations", plan.decode_iterations);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRepeated(plan, num_tokens));
  counts_.multi_iteration_steps += plan.decode_iterations > 1 ? 1 : 0;
  for (const RunRow& row : plan.rows) {
    LOCKSTEP_RETURN_IF_ERROR(AppendBlocks(plan, row));
    LOCKSTEP_RETURN_IF_ERROR(CheckRow(plan, row));
    LOCKSTEP_RETURN_IF_ERROR(RunRowOnce(plan, row, faults, executed));
  }
  return absl::OkStatus();
}

absl::Status ModelWorker::CheckRepeated(const StepPlan& plan, uint64_t num_tokens) {
  std::vector<std::pair<SlotId, uint32_t>> rows;
  for (const RunRow& row : plan.rows) rows.emplace_back(row.slot, row.max_drafts);
  const bool repeats = rows == last_rows_ && num_tokens == rows.size();
  if (plan.repeat_rows && !repeats) return Internal("the rows are not the last step's");
  counts_.repeated_steps += plan.repeat_rows ? 1 : 0;
  last_rows_ = std::move(rows);
  return absl::OkStatus();
}

}  // namespace lockstep::router::testing
