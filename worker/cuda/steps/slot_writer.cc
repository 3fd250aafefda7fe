#include "worker/cuda/steps/slot_writer.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/slots/host_copies.h"

namespace lockstep::worker {
namespace {

// Appends ids to a slot's list; returns where they begin.
uint32_t AppendIds(const std::vector<TokenId>& ids, const SlotStaging& staging, uint32_t& count) {
  const uint32_t begin = count;
  std::copy(ids.begin(), ids.end(), staging.list_ids + begin);
  count += static_cast<uint32_t>(ids.size());
  return begin;
}

void AddParams(const CudaStepMemory& memory, const SlotChanges::Started& started,
               kernels::HostCopies& copies) {
  const SlotStaging staging = memory.SlotOf(started.slot);
  const size_t first = size_t{started.slot} * kMaxSamplingListIds;
  copies.Add(memory.params + started.slot, staging.params, sizeof(*staging.params));
  copies.Add(memory.list_ids + first, staging.list_ids, started.num_list_ids * sizeof(TokenId));
  copies.Add(memory.list_values + first, staging.list_values, started.num_list_ids * sizeof(float));
  if (memory.known_tokens == nullptr) return;
  copies.Add(memory.known_tokens + int64_t{started.slot} * memory.max_context_tokens(),
             staging.known_tokens, started.num_known * sizeof(TokenId));
}

}  // namespace

absl::Status CudaSlotWriter::Check(const v1::StepRequest& step) {
  for (int i = 0; i < step.started_size(); ++i) {
    const v1::SlotSampling& sampling = step.started(i).sampling();
    const int64_t num_ids = int64_t{sampling.logit_bias_ids_size()} +
                            sampling.allowed_token_ids_size() + sampling.stop_token_ids_size();
    if (num_ids > kMaxSamplingListIds) {
      return Unimplemented(
          "started[{}].sampling: lists {} ids in all, this worker takes at most {}", i, num_ids,
          kMaxSamplingListIds);
    }
  }
  return absl::OkStatus();
}

uint32_t CudaSlotWriter::StageParams(const Slot& slot, SlotId slot_id) {
  const kernels::SampleParams& from = slot.params();
  const SlotStaging staging = memory_.SlotOf(slot_id);
  kernels::DeviceSampleParams& to = *staging.params;
  to = {from};
  to.sample_index = from.sample_index;
  to.seed = from.seed;
  to.min_total_tokens = slot.min_total_tokens();
  to.max_total_tokens = slot.max_total_tokens();
  to.num_logprobs = slot.num_logprobs();
  to.count_row = from.has_penalties() ? slot_id : kernels::kNoCountRow;

  const uint32_t base = slot_id * kMaxSamplingListIds;
  uint32_t count = 0;
  to.num_bias = static_cast<uint32_t>(from.logit_bias_ids.size());
  to.bias_begin = base + AppendIds(from.logit_bias_ids, staging, count);
  std::copy(from.logit_bias_values.begin(), from.logit_bias_values.end(), staging.list_values);
  to.num_allowed = static_cast<uint32_t>(from.allowed_token_ids.size());
  to.allowed_begin = base + AppendIds(from.allowed_token_ids, staging, count);
  to.num_stop = static_cast<uint32_t>(from.stop_token_ids.size());
  to.stop_begin = base + AppendIds(from.stop_token_ids, staging, count);
  if (from.has_penalties() || memory_.known_tokens != nullptr) {
    std::copy(slot.known_tokens().begin(), slot.known_tokens().end(), staging.known_tokens);
  }
  return count;
}

kernels::SlotUpdate CudaSlotWriter::UpdateOf(const Slot& slot, SlotId slot_id, uint32_t first_block,
                                             BlockId* blocks) {
  const std::vector<BlockId>& from = slot.blocks();
  std::copy(from.begin() + first_block, from.end(), blocks + num_staged_blocks_);
  const kernels::SlotUpdate update = {
      .slot = slot_id,
      .first_block = first_block,
      .num_blocks = static_cast<uint32_t>(from.size()) - first_block,
      .block_offset = num_staged_blocks_};
  num_staged_blocks_ += update.num_blocks;
  return update;
}

const SlotChanges& CudaSlotWriter::Stage(const v1::StepRequest& step, const SlotTable& table,
                                         const PassStaging& staging) {
  touched_.Clear();
  changes_ = {.started = std::move(changes_.started)};
  changes_.started.clear();
  num_staged_blocks_ = 0;
  for (const v1::StartedSlot& started : step.started()) {
    const SlotId slot_id = started.slot();
    const Slot& slot = table[slot_id];
    touched_.Insert(slot_id);
    changes_.started.push_back({.slot = slot_id,
                                .num_list_ids = StageParams(slot, slot_id),
                                .num_known = slot.num_known()});
    kernels::SlotUpdate update = UpdateOf(slot, slot_id, 0, staging.blocks);
    update.sets_state = 1;
    update.last_token = slot.known_tokens().back();
    update.position = slot.num_known() - 1;
    update.active = 1;
    staging.updates[changes_.num_updates++] = update;
    if (!slot.params().has_penalties()) continue;
    staging.count_updates[changes_.num_count_updates++] = {
        .count_row = slot_id,
        .num_known = slot.num_known(),
        .num_prompt = slot.num_prompt(),
        .token_offset = static_cast<uint32_t>(memory_.SlotOf(slot_id).known_tokens -
                                              memory_.host_known_tokens)};
  }
  for (int i = 0; i < step.grown_slots_size(); ++i) {
    const SlotId slot_id = step.grown_slots(i);
    if (!touched_.Insert(slot_id)) continue;  // started in this step, with all its blocks
    const uint32_t num_blocks = static_cast<uint32_t>(table[slot_id].blocks().size());
    staging.updates[changes_.num_updates++] =
        UpdateOf(table[slot_id], slot_id, num_blocks - step.grown_counts(i), staging.blocks);
  }
  for (const SlotId slot_id : step.released_slots()) {
    if (!touched_.Insert(slot_id)) continue;  // started anew
    staging.updates[changes_.num_updates++] = {.slot = slot_id, .sets_state = 1};
  }
  return changes_;
}

absl::Status EnqueueSlotChanges(const CudaModel& model, const CudaStepMemory& memory,
                                const PassStaging& staging, const SlotChanges& changes) {
  if (changes.empty()) return absl::OkStatus();
  kernels::HostCopies copies;
  for (const SlotChanges::Started& started : changes.started) AddParams(memory, started, copies);
  LOCKSTEP_RETURN_IF_ERROR(copies.Enqueue(model.stream()));
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::UpdateSlots(model.stream(), {.state = model.slots(),
                                            .updates = staging.updates,
                                            .blocks = staging.blocks,
                                            .num_updates = changes.num_updates}));
  if (changes.num_count_updates == 0) return absl::OkStatus();
  return kernels::CountTokens(model.stream(), {.updates = staging.count_updates,
                                               .tokens = memory.host_known_tokens,
                                               .num_updates = changes.num_count_updates,
                                               .vocab_size = model.plan().vocab_size,
                                               .token_counts = memory.token_counts});
}

}  // namespace lockstep::worker
