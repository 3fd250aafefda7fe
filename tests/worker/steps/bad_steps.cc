#include "tests/worker/steps/bad_steps.h"

#include <functional>
#include <utility>

#include "tests/worker/steps/step_messages.h"

namespace lockstep::testing {

namespace v1 = worker::v1;

namespace {

// Spoils the slot that the step starts.
BadStep OfStart(std::string name, std::function<void(v1::StartedSlot&)> spoil,
                std::string message) {
  return {std::move(name), [spoil](v1::StepRequest& step) { spoil(*step.mutable_started(0)); },
          std::move(message)};
}

}  // namespace

std::vector<BadStep> BadStarts() {
  using Started = v1::StartedSlot;
  return {
      OfStart(
          "SlotOutOfRange", [](Started& s) { s.set_slot(8); }, "started[0]: slot 8 is not below 8"),
      OfStart(
          "NoSampling", [](Started& s) { s.clear_sampling(); }, "sampling: missing"),
      OfStart(
          "NoTokens", [](Started& s) { s.clear_known_tokens(); }, "known_tokens"),
      OfStart(
          "TokenOutOfVocabulary", [](Started& s) { s.set_known_tokens(2, kBadStepVocabSize); },
          "known_tokens[2]: token 50"),
      OfStart(
          "NoPrompt", [](Started& s) { s.set_num_prompt_tokens(0); }, "num_prompt_tokens"),
      OfStart(
          "MorePromptThanKnown", [](Started& s) { s.set_num_prompt_tokens(7); },
          "num_prompt_tokens"),
      OfStart(
          "EverythingComputed", [](Started& s) { s.set_num_computed_tokens(6); },
          "num_computed_tokens"),
      OfStart(
          "LengthReached", [](Started& s) { s.mutable_sampling()->set_max_total_tokens(6); },
          "max_total_tokens"),
      OfStart(
          "LongerThanTheContext",
          [](Started& s) { s.mutable_sampling()->set_max_total_tokens(65); }, "max_total_tokens"),
      OfStart(
          "PromptLogprobsNotAskedFor", [](Started& s) { s.set_first_prompt_logprob(1); },
          "first_prompt_logprob"),
      OfStart(
          "PromptLogprobBehindThePrompt",
          [](Started& s) {
            s.mutable_sampling()->set_num_prompt_logprobs(0);
            s.set_first_prompt_logprob(6);
          },
          "first_prompt_logprob"),
      OfStart(
          "PromptLogprobAlreadyComputed",
          [](Started& s) {
            s.mutable_sampling()->set_num_prompt_logprobs(0);
            s.set_num_computed_tokens(3);
            s.set_first_prompt_logprob(3);
          },
          "first_prompt_logprob: must be in [4, 6)"),
  };
}

std::vector<BadStep> BadStartedBlocks() {
  using Started = v1::StartedSlot;
  return {
      OfStart(
          "BlockOutOfRange", [](Started& s) { s.set_blocks(1, 40); },
          "blocks[1]: block 40 is not below 40"),
      OfStart(
          "BlockTwice", [](Started& s) { s.set_blocks(1, s.blocks(0)); },
          "blocks[1]: block 20 is twice"),
      OfStart(
          "TooManyBlocks",
          [](Started& s) {
            s.clear_blocks();
            for (uint32_t block = 0; block < 17; ++block) s.add_blocks(block);
          },
          "blocks: 17 are more"),
      OfStart(
          "ComputedTokensWithoutBlocks",
          [](Started& s) {
            s.set_num_computed_tokens(5);
            s.mutable_blocks()->Truncate(1);
          },
          "cannot hold 5 computed"),
      OfStart(
          "GroupThatTheModelLacks", [](Started& s) { s.add_group_blocks(); },
          "group_blocks: expected 0"),
  };
}

std::vector<BadStep> BadReleases() {
  using Step = v1::StepRequest;
  return {
      {"ReleasedOutOfRange", [](Step& s) { s.add_released_slots(8); },
       "released_slots[0]: slot 8 is not below"},
      {"ReleasedEmpty", [](Step& s) { s.add_released_slots(4); },
       "released_slots[0]: slot 4 is empty"},
      {"ReleasedTwice",
       [](Step& s) {
         s.add_released_slots(1);
         s.add_released_slots(1);
       },
       "released_slots[1]: slot 1 is given twice"},
      {"StartedTwice", [](Step& s) { *s.add_started() = s.started(0); },
       "started[1]: slot 5 is given twice"},
  };
}

std::vector<BadStep> BadGrowth() {
  using Step = v1::StepRequest;
  const auto grow = [](Step& step, SlotId slot, std::vector<BlockId> blocks) {
    step.add_grown_slots(slot);
    step.add_grown_counts(static_cast<uint32_t>(blocks.size()));
    step.mutable_grown_blocks()->Add(blocks.begin(), blocks.end());
  };
  return {
      {"GrownCountsMissing", [](Step& s) { s.add_grown_slots(0); }, "grown_counts: expected 1"},
      {"GrownBlocksMissing",
       [](Step& s) {
         s.add_grown_slots(0);
         s.add_grown_counts(2);
         s.add_grown_blocks(30);
       },
       "grown_blocks: expected 2"},
      {"GrownCountsOverflow",
       [](Step& s) {
         for (const SlotId slot : {0u, 1u}) {
           s.add_grown_slots(slot);
           s.add_grown_counts(1u << 31);
         }
       },
       "grown_blocks: expected 4294967296"},
      {"GrownByNothing", [grow](Step& s) { grow(s, 0, {}); }, "grows by no block"},
      {"GrownOutOfRange", [grow](Step& s) { grow(s, 9, {30}); },
       "grown_slots[0]: slot 9 is not below"},
      {"GrownEmpty", [grow](Step& s) { grow(s, 4, {30}); }, "grown_slots[0]: slot 4 is empty"},
      {"GrownAfterRelease",
       [grow](Step& s) {
         s.add_released_slots(1);
         grow(s, 1, {30});
       },
       "slot 1 is empty"},
      {"GrownTwice",
       [grow](Step& s) {
         grow(s, 0, {30});
         grow(s, 0, {31});
       },
       "grown_slots[1]: slot 0 is given twice"},
      {"GrownBlockOutOfRange", [grow](Step& s) { grow(s, 0, {40}); }, "block 40 is not below"},
      {"GrownBlockAlreadyInTheTable", [grow](Step& s) { grow(s, 0, {30, 2}); }, "block 2 is twice"},
      {"GrownBlockAlreadyInTheStartedTable", [grow](Step& s) { grow(s, 5, {21}); },
       "block 21 is twice"},
      {"GrownInAGroupThatTheModelLacks", [](Step& s) { AddGrowth(s, 0, 1, {30}); },
       "grown_groups[0]: group 1 is not below 1"},
      {"GrownPastTheContext", [grow](Step& s) { grow(s, 0, BlockRange(10, 14)); },
       "17 blocks are more than a context"},
  };
}

std::vector<BadStep> BadRows() {
  using Step = v1::StepRequest;
  return {
      {"RowOutOfRange", [](Step& s) { AddRow(s, 8, 1); }, "run_slots[1]: slot 8 is not below"},
      {"RowEmpty", [](Step& s) { AddRow(s, 7, 1); }, "run_slots[1]: slot 7 is empty"},
      {"RowReleased",
       [](Step& s) {
         s.add_released_slots(0);
         AddRow(s, 0, 1);
       },
       "run_slots[1]: slot 0 is empty"},
      {"RowTwice", [](Step& s) { AddRow(s, 5, 1); }, "run_slots[1]: slot 5 is given twice"},
      {"RowOfNoToken", [](Step& s) { AddRow(s, 0, 0); }, "runs no token"},
      {"RowTokensMissing", [](Step& s) { s.add_run_slots(0); }, "run_tokens: expected 2"},
      {"OverBudget", [](Step& s) { AddRow(s, 0, 27); },
       "33 tokens are more than max_step_tokens 32"},
      {"BudgetOverflow",
       [](Step& s) {
         AddRow(s, 0, ~0u);
         AddRow(s, 1, 2);
       },
       "are more than max_step_tokens"},
      {"BeyondItsBlocks", [](Step& s) { s.mutable_started(0)->mutable_blocks()->Truncate(1); },
       "slot 5 reaches 6 tokens, its 1 blocks hold 4"},
      {"TooManyIterations", [](Step& s) { s.set_decode_iterations(5); },
       "decode_iterations: must be at most 4"},
      {"IterationsOfAPrefill", [](Step& s) { s.set_decode_iterations(2); },
       "slot 5 does not decode"},
      {"IterationsBeyondItsBlocks",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.add_run_slots(0);
         s.set_decode_iterations(4);  // positions 9 to 12, blocks hold 12
       },
       "slot 0 reaches 13 tokens"},
  };
}

std::vector<BadStep> BadDrafts() {
  using Step = v1::StepRequest;
  return {
      {"DraftLimitsMissing",
       [](Step& s) {
         s.add_draft_limits(0);
         s.add_draft_limits(0);
       },
       "draft_limits: expected 1 entries or none, got 2"},
      {"DraftLimitTooHigh", [](Step& s) { s.add_draft_limits(4); },
       "draft_limits[0]: must be at most 3, got 4"},
      {"DraftsOfAPrefill", [](Step& s) { s.add_draft_limits(1); },
       "slot 5 does not decode one token, so it cannot draft 1"},
      {"DraftsWithIterations",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.add_run_slots(0);
         s.add_draft_limits(1);
         s.set_decode_iterations(2);
       },
       "slot 0 does not decode one token"},
      {"DraftsBeyondItsBlocks",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.add_run_slots(0);
         s.add_draft_limits(3);  // positions 9 to 12, blocks hold 12
       },
       "slot 0 reaches 13 tokens"},
      {"RepeatWithDraftLimits",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.set_repeat_rows(true);
         s.add_draft_limits(1);
       },
       "draft_limits: must be empty beside repeat_rows"},
  };
}

std::vector<BadStep> BadRepeats() {
  using Step = v1::StepRequest;
  return {
      {"RepeatWithRows", [](Step& s) { s.set_repeat_rows(true); }, "repeat_rows: run_slots"},
      {"RepeatAReleasedRow",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.add_released_slots(1);
         s.set_repeat_rows(true);
       },
       "run_slots[1]: slot 1 is empty"},
      {"RepeatAfterResync",
       [](Step& s) {
         s.clear_run_slots();
         s.clear_run_tokens();
         s.set_resync(true);
         s.set_repeat_rows(true);
       },
       "repeat_rows: the step before has no rows"},
      {"ResyncKnowsNoSlots",
       [](Step& s) {
         s.set_resync(true);
         AddRow(s, 0, 1);
       },
       "slot 0 is empty"},
  };
}

std::vector<BadStep> BadOrder() {
  using Step = v1::StepRequest;
  return {
      {"Copies", [](Step& s) { s.add_copied_to(1); }, "copied_from",
       absl::StatusCode::kUnimplemented},
      {"Claim", [](Step& s) { s.mutable_claim(); }, "claim"},
      {"OtherEpoch", [](Step& s) { s.set_epoch(2); }, "epoch: the lease is 3",
       absl::StatusCode::kFailedPrecondition},
      {"StepIdGap", [](Step& s) { s.set_step_id(6); }, "step_id: expected 5, got 6",
       absl::StatusCode::kFailedPrecondition},
      {"StepIdAgain", [](Step& s) { s.set_step_id(4); }, "step_id: expected 5, got 4",
       absl::StatusCode::kFailedPrecondition},
      {"ResyncFromThePast",
       [](Step& s) {
         s.set_resync(true);
         s.set_step_id(4);
       },
       "step_id: a resync must come after step 4", absl::StatusCode::kFailedPrecondition},
  };
}

}  // namespace lockstep::testing
