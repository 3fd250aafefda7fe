#include "tests/worker/steps/random_steps.h"

#include <limits>

#include "tests/worker/steps/step_messages.h"

namespace lockstep::testing {

namespace v1 = worker::v1;

namespace {

constexpr uint32_t kNumSlots = 8;
constexpr uint32_t kVocabSize = 64;
constexpr uint32_t kNumBlocks = 64;
// A started table is a range of blocks, of which a sequence of at most 60 tokens reaches so many.
constexpr uint32_t kReachedBlocks = 4;
// Of FakeModelWithWindow.
constexpr uint32_t kNumWindowBlocks = 24;
constexpr uint32_t kWindowTokens = 10;
constexpr uint32_t kBlockSizeTokens = 4;

}  // namespace

uint32_t RandomSteps::Around(uint32_t bound) {
  if (Chance(0.99)) return Below(bound);
  return Chance(0.5) ? bound : static_cast<uint32_t>(random_());
}

SlotId RandomSteps::AnySlot() {
  return started_.empty() || Chance(0.03) ? Around(kNumSlots) : started_[Below(started_.size())];
}

float RandomSteps::AnyFloat() {
  constexpr float kValues[] = {0,
                               1,
                               -1,
                               0.5f,
                               1.5f,
                               std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::max()};
  return kValues[Below(std::size(kValues))];
}

v1::StartedSlot RandomSteps::AnyStarted() {
  const uint32_t num_known = 1 + Below(40);
  std::vector<TokenId> tokens = MakeTokens(num_known, kVocabSize, random_());
  v1::StartedSlot started = MakeStarted(
      Around(kNumSlots), tokens, BlockRange(Below(40), 4 + Below(16)), num_known + 1 + Below(20));
  v1::SlotSampling& sampling = *started.mutable_sampling();
  sampling.set_seed(random_());
  sampling.set_temperature(Chance(0.5) ? 1 : 0);
  sampling.set_top_k(Below(80));
  sampling.set_num_logprobs(static_cast<int32_t>(Below(4)) - 1);
  if (Chance(0.3)) sampling.set_repetition_penalty(1.2f);
  for (uint32_t i = Below(3); i > 0; --i) sampling.add_stop_token_ids(Around(kVocabSize));
  for (uint32_t i = Below(3); i > 0; --i) sampling.add_allowed_token_ids(Around(kVocabSize));
  sampling.set_min_total_tokens(Below(60));
  if (Chance(0.3)) started.set_num_prompt_tokens(Around(num_known + 1));
  if (Chance(0.15)) {
    sampling.set_num_prompt_logprobs(1);
    started.set_first_prompt_logprob(Below(num_known));
  }
  if (Chance(0.05)) {
    started.set_known_tokens(static_cast<int>(Below(num_known)), Around(kVocabSize));
  }
  if (Chance(0.03)) sampling.set_temperature(AnyFloat());
  if (Chance(0.03)) sampling.set_top_p(AnyFloat());
  if (Chance(0.03)) sampling.set_frequency_penalty(AnyFloat());
  if (with_window_) AddWindowBlocks(started);
  return started;
}

void RandomSteps::AddWindowBlocks(v1::StartedSlot& started) {
  uint32_t first = 0;
  if (Chance(0.3)) {
    const uint32_t num_computed = Below(static_cast<uint32_t>(started.known_tokens_size()));
    started.set_num_computed_tokens(num_computed);
    const uint32_t first_read = num_computed < kWindowTokens ? 0 : num_computed + 1 - kWindowTokens;
    first = first_read / kBlockSizeTokens + (Chance(0.05) ? 1 : 0);
  }
  const BlockId first_block = Below(12);
  AddGroupBlocks(started, first, BlockRange(first_block, 4 + Below(kNumWindowBlocks - 15)));
  if (Chance(0.02)) started.mutable_group_blocks(0)->set_first(Around(kNumBlocks));
  if (Chance(0.02)) started.add_group_blocks();
  if (Chance(0.02)) started.mutable_group_blocks(0)->set_blocks(0, Around(kNumWindowBlocks));
}

void RandomSteps::SpoilGroups(v1::StepRequest& step) {
  if (step.started_size() > 0 && Chance(0.5)) {
    step.mutable_started(0)->clear_group_blocks();
  } else {
    step.add_grown_groups(Around(2));
  }
}

void RandomSteps::Grow(v1::StepRequest& step) {
  if (with_window_ && Chance(0.5)) return AddGrowth(step, AnySlot(), 1, {Around(kNumWindowBlocks)});
  step.add_grown_slots(AnySlot());
  step.add_grown_counts(1);
  step.add_grown_blocks(Around(kNumBlocks));
}

void RandomSteps::Spoil(v1::StepRequest& step) {
  switch (Below(9)) {
    case 0:
      step.set_step_id(random_());
      break;
    case 1:
      step.set_epoch(random_());
      break;
    case 2:
      step.mutable_claim()->set_takeover(true);
      break;
    case 3:
      step.add_copied_from(Around(kNumBlocks));
      break;
    case 4:
      step.set_decode_iterations(Around(9));
      break;
    case 5:
      step.add_run_slots(Around(kNumSlots));
      break;
    case 6:
      step.add_run_tokens(Around(64));
      break;
    case 7:
      step.add_grown_counts(static_cast<uint32_t>(random_()));
      break;
    default:
      step.add_grown_blocks(Around(kNumBlocks));
      break;
  }
}

void RandomSteps::Start(v1::StepRequest& step) {
  const v1::StartedSlot& started = *step.add_started() = AnyStarted();
  starting_.push_back(started.slot());
  first_blocks_[started.slot()] = started.blocks(0);
}

bool RandomSteps::RowsMayRun() {
  if (rows_collide_) return true;
  for (const SlotId row : rows_) {
    for (const SlotId other : rows_) {
      const BlockId first = first_blocks_[row];
      const BlockId other_first = first_blocks_[other];
      if (row != other && first <= other_first && other_first < first + kReachedBlocks) {
        return false;
      }
    }
  }
  return true;
}

void RandomSteps::TryRow(v1::StepRequest& step, SlotId slot, uint32_t num_tokens) {
  rows_.push_back(slot);
  if (RowsMayRun()) {
    AddRow(step, slot, num_tokens);
  } else {
    rows_.pop_back();
  }
}

v1::StepRequest RandomSteps::Next() {
  v1::StepRequest step;
  step.set_epoch(epoch_);
  step.set_step_id(last_step_id_ + 1);
  step.set_resync(resync_ || Chance(0.02));
  if (step.resync()) started_.clear();
  starting_.clear();
  if (step.resync() || Chance(0.3)) Start(step);
  if (Chance(0.05)) step.add_released_slots(AnySlot());
  if (Chance(0.05)) Grow(step);
  if (Chance(0.15) && RowsMayRun()) {
    step.set_repeat_rows(true);
  } else {
    rows_.clear();
    for (const v1::StartedSlot& started : step.started()) {
      if (Chance(0.8)) TryRow(step, started.slot(), 1 + Below(24));
    }
    if (step.run_slots_size() == 0 || Chance(0.1)) TryRow(step, AnySlot(), 1 + Around(8));
  }
  if (max_draft_limit_ > 0 && Chance(0.7)) {
    // Rows of one token may decode.
    for (const uint32_t num_tokens : step.run_tokens()) {
      step.add_draft_limits(num_tokens == 1 ? Around(max_draft_limit_ + 1) : 0);
    }
  }
  if (Chance(0.05)) Spoil(step);
  if (with_window_ && Chance(0.03)) SpoilGroups(step);
  return step;
}

void RandomSteps::Observe(const v1::StepResult& result) {
  resync_ = result.has_refusal();
  if (result.has_refusal()) return;
  last_step_id_ = result.step_id();
  started_.insert(started_.end(), starting_.begin(), starting_.end());
}

}  // namespace lockstep::testing
