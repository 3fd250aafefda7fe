#include <cstdint>
#include <vector>

#include "tests/worker/steps/bad_steps.h"
#include "tests/worker/steps/step_messages.h"

namespace lockstep::testing {

namespace v1 = worker::v1;

namespace {

// Gives the slot 62 known tokens. The first `num_computed` of them are computed.
void Lengthen(v1::StartedSlot& started, uint32_t num_computed) {
  const v1::StartedSlot longer =
      MakeStarted(5, MakeTokens(62, kBadStepVocabSize, 1), BlockRange(20, 16), 64);
  *started.mutable_known_tokens() = longer.known_tokens();
  *started.mutable_blocks() = longer.blocks();
  started.set_num_prompt_tokens(62);
  started.set_num_computed_tokens(num_computed);
  started.mutable_sampling()->set_max_total_tokens(64);
}

void SetGroupBlocks(v1::StartedSlot& started, uint32_t first, std::vector<BlockId> blocks) {
  started.clear_group_blocks();
  AddGroupBlocks(started, first, blocks);
}

}  // namespace

std::vector<BadStep> BadGroupStarts() {
  using Started = v1::StartedSlot;
  std::vector<BadStep> cases;
  const auto add = [&cases](std::string name, std::function<void(Started&)> spoil,
                            std::string message) {
    cases.push_back({std::move(name),
                     [spoil](v1::StepRequest& step) { spoil(*step.mutable_started(0)); },
                     "started[0]: " + std::move(message)});
  };
  add(
      "GroupMissing", [](Started& s) { s.clear_group_blocks(); },
      "group_blocks: expected 1, one for each KV group after the first, got 0");
  add("GroupTooMany", [](Started& s) { s.add_group_blocks(); }, "group_blocks: expected 1");
  add(
      "BlockOfTheOtherPool",
      [](Started& s) { s.mutable_group_blocks(0)->set_blocks(1, kBadStepWindowBlocks); },
      "group_blocks[0]: blocks[1]: block 12 is not below 12");
  add(
      "GroupBlockTwice",
      [](Started& s) { s.mutable_group_blocks(0)->set_blocks(1, s.group_blocks(0).blocks(0)); },
      "group_blocks[0]: blocks[1]: block 4 is twice");
  add(
      "FirstWithoutAWindowBehind", [](Started& s) { s.mutable_group_blocks(0)->set_first(1); },
      "group_blocks[0]: first: must be at most 0, the first block that token 0 reads, got 1");
  add(
      "FirstOffByOne",
      [](Started& s) {
        Lengthen(s, 13);  // token 13 reads positions 8 to 13
        SetGroupBlocks(s, 3, BlockRange(0, 5));
      },
      "group_blocks[0]: first: must be at most 2, the first block that token 13 reads, got 3");
  add(
      "GroupBlocksTooFew",
      [](Started& s) {
        Lengthen(s, 13);
        SetGroupBlocks(s, 2, {0});
      },
      "group_blocks[0]: blocks: 3 of 4 tokens cannot hold 13 computed");
  add(
      "GroupBlocksTooMany",
      [](Started& s) {
        Lengthen(s, 60);
        SetGroupBlocks(s, 13, BlockRange(0, 4));
      },
      "group_blocks[0]: blocks: 17 are more");
  return cases;
}

std::vector<BadStep> BadGroupGrowth() {
  using Step = v1::StepRequest;
  const auto grow = [](Step& step, SlotId slot, uint32_t group, std::vector<BlockId> blocks) {
    AddGrowth(step, slot, group, blocks);
  };
  return {
      {"GrownGroupsMissing",
       [grow](Step& s) {
         grow(s, 0, 1, {9});
         s.add_grown_slots(0);
         s.add_grown_counts(0);
       },
       "grown_groups: expected 2 entries or none, got 1"},
      {"GrownGroupOutOfRange", [grow](Step& s) { grow(s, 0, 2, {9}); },
       "grown_groups[0]: group 2 is not below 2"},
      {"GrownTwiceInAGroup",
       [grow](Step& s) {
         grow(s, 0, 1, {9});
         grow(s, 0, 0, {30});
         grow(s, 0, 1, {10});
       },
       "grown_slots[2]: group 1: slot 0 is given twice"},
      {"GrownByNothingInAGroup", [grow](Step& s) { grow(s, 0, 1, {}); },
       "grown_slots[0]: group 1: slot 0 grows by no block"},
      {"GrownByABlockOfTheOtherPool", [grow](Step& s) { grow(s, 0, 1, {kBadStepWindowBlocks}); },
       "grown_slots[0]: group 1: block 12 is not below 12"},
      {"GrownByABlockThatIsRead", [grow](Step& s) { grow(s, 0, 1, {7}); },
       "grown_slots[0]: group 1: block 7 is twice"},
      {"GrownByABlockOfTheStartedTable", [grow](Step& s) { grow(s, 5, 1, {4}); },
       "grown_slots[0]: group 1: block 4 is twice"},
      {"GrownPastTheContextInAGroup", [grow](Step& s) { grow(s, 0, 1, BlockRange(0, 14)); },
       "grown_slots[0]: group 1: 17 blocks are more than a context"},
      {"GrownInOneGroupOnly",
       [grow](Step& s) {
         grow(s, 0, 0, {30});
         s.clear_run_slots();
         s.clear_run_tokens();
         s.add_run_slots(0);
         s.set_decode_iterations(4);  // positions 9 to 12, the blocks of group 1 hold 12
       },
       "run_slots[0]: group 1: slot 0 reaches 13 tokens, its 3 blocks hold 12"},
      {"StartedInOneGroupOnly",
       [](Step& s) {
         s.mutable_started(0)->mutable_group_blocks(0)->mutable_blocks()->Truncate(1);
       },
       "run_slots[0]: group 1: slot 5 reaches 6 tokens, its 1 blocks hold 4"},
  };
}

}  // namespace lockstep::testing
