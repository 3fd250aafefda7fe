#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "kernels/kv_cache/paged_kv.h"
#include "kernels/slots/slot_state.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::DeviceArray;

constexpr int64_t kNumSlots = 9;
constexpr int64_t kMaxBlocks = 70;

class SlotStateCudaTest : public testing::CudaTest {
 protected:
  // The device's arrays and what they should hold.
  struct Slots {
    std::vector<TokenId> last_token = std::vector<TokenId>(kNumSlots);
    std::vector<uint32_t> position = std::vector<uint32_t>(kNumSlots);
    std::vector<uint32_t> active = std::vector<uint32_t>(kNumSlots);
    std::vector<BlockId> tables = std::vector<BlockId>(kNumSlots * kMaxBlocks);
  };

  SlotState State() const {
    return {.last_token = last_token_->data(),
            .position = position_->data(),
            .active = active_->data(),
            .block_tables = tables_->data(),
            .num_slots = kNumSlots,
            .max_blocks = kMaxBlocks};
  }

  void Upload(const Slots& slots) {
    last_token_.emplace(slots.last_token);
    position_.emplace(slots.position);
    active_.emplace(slots.active);
    tables_.emplace(slots.tables);
  }

  void ExpectDeviceHolds(const Slots& slots) {
    EXPECT_EQ(last_token_->Read(), slots.last_token);
    EXPECT_EQ(position_->Read(), slots.position);
    EXPECT_EQ(active_->Read(), slots.active);
    EXPECT_EQ(tables_->Read(), slots.tables);
    tables_->ExpectGuardsIntact();
  }

  std::optional<DeviceArray<TokenId>> last_token_;
  std::optional<DeviceArray<uint32_t>> position_;
  std::optional<DeviceArray<uint32_t>> active_;
  std::optional<DeviceArray<BlockId>> tables_;
};

SlotUpdate Start(uint32_t slot, TokenId token, uint32_t position) {
  return {.slot = slot, .sets_state = 1, .last_token = token, .position = position, .active = 1};
}

TEST_F(SlotStateCudaTest, UpdatesTouchWhatTheyNameAndNothingElse) {
  Slots slots;
  for (size_t i = 0; i < slots.tables.size(); ++i) slots.tables[i] = 1000 + static_cast<BlockId>(i);
  slots.active.assign(kNumSlots, 1);
  Upload(slots);
  std::vector<BlockId> blocks;
  for (BlockId i = 0; i < 80; ++i) blocks.push_back(7 * i);

  SlotUpdate started = Start(2, 42, 17);
  started.num_blocks = kMaxBlocks;
  started.block_offset = 3;
  const SlotUpdate grown = {.slot = 8, .first_block = 5, .num_blocks = 2, .block_offset = 75};
  const SlotUpdate released = {.slot = 4, .sets_state = 1};
  const DeviceArray<SlotUpdate> updates(std::vector<SlotUpdate>{started, grown, released});
  const DeviceArray<BlockId> device_blocks(blocks);
  ASSERT_THAT(UpdateSlots(stream_, {.state = State(),
                                    .updates = updates.data(),
                                    .blocks = device_blocks.data(),
                                    .num_updates = 3}),
              IsOk());
  Synchronize();

  slots.last_token[2] = 42;
  slots.position[2] = 17;
  for (size_t i = 0; i < kMaxBlocks; ++i) slots.tables[2 * kMaxBlocks + i] = blocks[3 + i];
  slots.tables[8 * kMaxBlocks + 5] = blocks[75];
  slots.tables[8 * kMaxBlocks + 6] = blocks[76];
  slots.last_token[4] = 0;
  slots.position[4] = 0;
  slots.active[4] = 0;
  ExpectDeviceHolds(slots);
}

// What the rows of a step should read.
struct ExpectedInputs {
  void Add(size_t slot, TokenId token, uint32_t position) {
    const uint64_t block = tables[slot * kMaxBlocks + position / kKvBlockTokens];
    tokens.push_back(token);
    positions.push_back(position);
    kv_slots.push_back(block * kKvBlockTokens + position % kKvBlockTokens);
  }
  void AddPadding() {
    tokens.push_back(0);
    positions.push_back(kNoPosition);
    kv_slots.push_back(kNoKvSlot);
  }

  const std::vector<BlockId>& tables;  // [slots, kMaxBlocks]
  std::vector<TokenId> tokens = {};
  std::vector<uint32_t> positions = {};
  std::vector<uint64_t> kv_slots = {};
};

TEST_F(SlotStateCudaTest, InputsOfDecodeRowsPaddingAndChunks) {
  Slots slots;
  for (size_t i = 0; i < slots.tables.size(); ++i) slots.tables[i] = static_cast<BlockId>(3 * i);
  slots.last_token = {10, 11, 12, 13, 14, 15, 16, 17, 18};
  slots.position = {0, 15, 16, 33, 100, 5, 6, 7, 1119};
  slots.active = {1, 1, 0, 1, 1, 1, 1, 1, 1};
  Upload(slots);
  // Slot 2 has stopped, one row is padding.
  const std::vector<uint32_t> decode_slots = {8, 2, kNoSlot, 1, 0};
  // Two chunks, the first longer than a block of threads.
  const std::vector<AttentionChunk> chunks = {
      {.first_token = 5, .num_tokens = 300, .first_position = 30, .block_table_row = 3},
      {.first_token = 305, .num_tokens = 2, .first_position = 0, .block_table_row = 6}};
  std::vector<TokenId> chunk_tokens;
  for (TokenId i = 0; i < 302; ++i) chunk_tokens.push_back(500 + i);

  const DeviceArray<uint32_t> device_decode_slots(decode_slots);
  const DeviceArray<AttentionChunk> device_chunks(chunks);
  const DeviceArray<TokenId> device_chunk_tokens(chunk_tokens);
  constexpr int64_t kNumTokens = 307;
  const DeviceArray<TokenId> token_ids(kNumTokens);
  const DeviceArray<uint32_t> positions(kNumTokens);
  const DeviceArray<uint64_t> kv_slots(kNumTokens);
  const DeviceArray<uint64_t> begin_ns(1);
  ASSERT_THAT(PrepareStepInputs(stream_, {.state = State(),
                                          .decode_slots = device_decode_slots.data(),
                                          .num_decode_rows = 5,
                                          .chunks = device_chunks.data(),
                                          .chunk_token_ids = device_chunk_tokens.data(),
                                          .num_chunks = 2,
                                          .num_tokens = kNumTokens,
                                          .token_ids = token_ids.data(),
                                          .positions = positions.data(),
                                          .kv_slots = kv_slots.data(),
                                          .begin_ns = begin_ns.data()}),
              IsOk());
  Synchronize();

  ExpectedInputs expected{.tables = slots.tables};
  expected.Add(8, 18, 1119);
  expected.AddPadding();
  expected.AddPadding();
  expected.Add(1, 11, 15);
  expected.Add(0, 10, 0);
  for (uint32_t i = 0; i < 300; ++i) expected.Add(3, chunk_tokens[i], 30 + i);
  for (uint32_t i = 0; i < 2; ++i) expected.Add(6, chunk_tokens[300 + i], i);
  EXPECT_EQ(token_ids.Read(), expected.tokens);
  EXPECT_EQ(positions.Read(), expected.positions);
  EXPECT_EQ(kv_slots.Read(), expected.kv_slots);
  EXPECT_NE(begin_ns.Read()[0], UINT64_MAX);
  token_ids.ExpectGuardsIntact();
  positions.ExpectGuardsIntact();
  kv_slots.ExpectGuardsIntact();
  ExpectDeviceHolds(slots);
}

TEST_F(SlotStateCudaTest, InputsOfDraftsFollowTheirSlotsLastToken) {
  constexpr uint32_t kMaxDrafts = 2;
  Slots slots;
  for (size_t i = 0; i < slots.tables.size(); ++i) slots.tables[i] = static_cast<BlockId>(3 * i);
  slots.last_token = {10, 11, 12, 13, 14, 15, 16, 17, 18};
  slots.position = {0, 14, 15, 16, 100, 5, 6, 7, 8};
  slots.active = {1, 1, 1, 0, 1, 1, 1, 1, 1};
  Upload(slots);
  // Slot 1 has two drafts, slot 2 one, over the border of a block. Slot 3 has stopped, slot 4 found
  // no draft.
  const std::vector<uint32_t> decode_slots = {1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 0, kNoSlot};
  const std::vector<uint32_t> numbers = {0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 0};
  std::vector<uint32_t> num_drafts(kNumSlots, 0);
  std::vector<TokenId> drafts(kNumSlots * kMaxDrafts, 99);
  num_drafts[1] = 2;
  num_drafts[2] = 1;
  num_drafts[3] = 2;
  drafts[2] = 501;
  drafts[3] = 502;
  drafts[4] = 601;
  const DeviceArray<uint32_t> device_decode_slots(decode_slots), device_numbers(numbers),
      device_num_drafts(num_drafts);
  const DeviceArray<TokenId> device_drafts(drafts);
  constexpr int64_t kNumTokens = 12;
  const DeviceArray<TokenId> token_ids(kNumTokens);
  const DeviceArray<uint32_t> positions(kNumTokens);
  const DeviceArray<uint64_t> kv_slots(kNumTokens);
  ASSERT_THAT(
      PrepareStepInputs(stream_, {.state = State(),
                                  .decode_slots = device_decode_slots.data(),
                                  .draft_rows = {.numbers = device_numbers.data(),
                                                 .table = {.tokens = device_drafts.data(),
                                                           .num_drafts = device_num_drafts.data(),
                                                           .max_drafts = kMaxDrafts}},
                                  .num_decode_rows = kNumTokens,
                                  .num_tokens = kNumTokens,
                                  .token_ids = token_ids.data(),
                                  .positions = positions.data(),
                                  .kv_slots = kv_slots.data()}),
      IsOk());
  Synchronize();

  ExpectedInputs expected{.tables = slots.tables};
  expected.Add(1, 11, 14);
  expected.Add(1, 501, 15);
  expected.Add(1, 502, 16);
  expected.Add(2, 12, 15);
  expected.Add(2, 601, 16);
  for (int i = 0; i < 3; ++i) expected.AddPadding();
  expected.Add(4, 14, 100);
  expected.AddPadding();
  expected.Add(0, 10, 0);
  expected.AddPadding();
  EXPECT_EQ(token_ids.Read(), expected.tokens);
  EXPECT_EQ(positions.Read(), expected.positions);
  EXPECT_EQ(kv_slots.Read(), expected.kv_slots);
  ExpectDeviceHolds(slots);
}

}  // namespace
}  // namespace lockstep::kernels
