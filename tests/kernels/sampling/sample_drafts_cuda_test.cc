#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/sample.h"
#include "tests/kernels/sampling/sample_cuda_batch.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;
using testing::GaussianLogits;
using testing::SampleCase;
using testing::SampleOnDevice;

constexpr int64_t kVocabSize = 512;
constexpr uint32_t kPosition = 21;  // of the token that row 0 samples

// One slot with drafts, in a row each behind the row of its last known token.
struct DraftedSlot {
  SampleParams params;
  std::vector<TokenCount> seen = {};
  std::vector<TokenId> drafts = {};
  std::vector<std::vector<float>> logits = {};  // of each row; may have more rows than drafts
};

struct SampledRows {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> statuses;
};

class SampleDraftsCudaTest : public testing::CudaTest {
 protected:
  SampledRows Sample(const DraftedSlot& slot, bool all_plain_greedy) const {
    const auto num_rows = static_cast<uint32_t>(slot.logits.size());
    testing::SamplerHostState host(2, kVocabSize);
    host.Set(1, slot.params, slot.seen);
    std::vector<float> logits;
    for (const std::vector<float>& row : slot.logits) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
    std::vector<uint32_t> row_numbers(num_rows);
    std::iota(row_numbers.begin(), row_numbers.end(), 0u);
    // Slot 0 has other drafts.
    std::vector<TokenId> table(2 * num_rows, 8);
    std::copy(slot.drafts.begin(), slot.drafts.end(), table.begin() + num_rows);
    const DeviceArray<float> device_logits(logits);
    const DeviceArray<DeviceSampleParams> params(host.all_params());
    const DeviceArray<TokenId> tokens(num_rows), drafts(table);
    const DeviceArray<uint32_t> statuses(num_rows), counts(host.counts()),
        slots(std::vector<uint32_t>(num_rows, 1)), numbers(row_numbers),
        num_drafts(std::vector<uint32_t>{0, static_cast<uint32_t>(slot.drafts.size())}),
        positions(std::vector<uint32_t>{5, kPosition - 1}), active(std::vector<uint32_t>{1, 1});
    const absl::Status status = SampleRows(
        stream_, {.logits = device_logits.data(),
                  .row_stride = kVocabSize,
                  .num_rows = num_rows,
                  .vocab_size = kVocabSize,
                  .row_slots = slots.data(),
                  .draft_rows = {.numbers = numbers.data(),
                                 .table = {.tokens = drafts.data(),
                                           .num_drafts = num_drafts.data(),
                                           .max_drafts = num_rows}},
                  .all_plain_greedy = all_plain_greedy,
                  .state = {.position = positions.data(), .active = active.data(), .num_slots = 2},
                  .tables = {.params = params.data(), .token_counts = counts.data()},
                  .tokens = tokens.data(),
                  .statuses = statuses.data()});
    EXPECT_TRUE(status.ok()) << status;
    return {tokens.Read(), statuses.Read()};
  }
  // The same rows, each of a slot of its own. Row i has seen what `seen_by_row` says.
  std::vector<TokenId> SampleOneByOne(
      const DraftedSlot& slot, const std::vector<std::vector<TokenCount>>& seen_by_row) const {
    std::vector<SampleCase> cases;
    for (uint32_t row = 0; row < slot.logits.size(); ++row) {
      cases.push_back({.params = slot.params,
                       .logits = slot.logits[row],
                       .seen = seen_by_row[row],
                       .position = kPosition + row});
    }
    return SampleOnDevice(stream_, cases, kVocabSize).tokens;
  }
};

// The slot has three drafts, so there is nothing behind the fourth row.
TEST_F(SampleDraftsCudaTest, EachRowIsSampledAtItsOwnPosition) {
  for (const float temperature : {0.0f, 1.0f}) {
    DraftedSlot slot = {.params = {{.temperature = temperature}, 17}, .drafts = {1, 2, 3}};
    for (uint32_t row = 0; row < 5; ++row) {
      slot.logits.push_back(GaussianLogits(kVocabSize, temperature == 0 ? row : 1));
    }
    std::vector<TokenId> expected = SampleOneByOne(slot, std::vector(5, slot.seen));
    expected.back() = 0;
    const SampledRows sampled = Sample(slot, /*all_plain_greedy=*/temperature == 0);
    EXPECT_EQ(sampled.tokens, expected) << "temperature " << temperature;
    EXPECT_EQ(sampled.statuses,
              (std::vector<uint32_t>{kSampled, kSampled, kSampled, kSampled, kNotSampled}));
    EXPECT_GT(std::set<TokenId>(expected.begin(), expected.end()).size(), 2u);
  }
}

// Row j counts the first j drafts as generated: new ones, ones that came twice, and ones that the
// sequence has already.
TEST_F(SampleDraftsCudaTest, PenaltiesCountTheDraftsBeforeARow) {
  for (const float temperature : {0.0f, 1.0f}) {
    DraftedSlot slot = {.params = {{.temperature = temperature,
                                    .presence_penalty = 1.5f,
                                    .frequency_penalty = 0.75f,
                                    .repetition_penalty = 1.5f},
                                   23},
                        .seen = {{3, 2}, {400, 0}, {9, 1}},
                        .drafts = {7, 400, 7, 3, 511, 7}};
    std::vector<std::vector<TokenCount>> seen_by_row = {slot.seen};
    for (const TokenId draft : slot.drafts) {
      std::vector<TokenCount>& seen = seen_by_row.emplace_back(seen_by_row.back());
      const auto entry = std::ranges::find(seen, draft, &TokenCount::token);
      if (entry == seen.end()) {
        seen.push_back({draft, 1});
      } else {
        ++entry->num_generated;
      }
    }
    for (uint32_t row = 0; row <= slot.drafts.size(); ++row) {
      std::vector<float>& logits = slot.logits.emplace_back(GaussianLogits(kVocabSize, row, 1.0f));
      for (const TokenId token : {3u, 7u, 9u, 400u, 511u}) logits[token] += 6.0f;
    }
    const std::vector<TokenId> tokens = Sample(slot, /*all_plain_greedy=*/false).tokens;
    EXPECT_EQ(tokens, SampleOneByOne(slot, seen_by_row)) << "temperature " << temperature;
    // It is not the same without the drafts.
    EXPECT_NE(tokens, SampleOneByOne(slot, std::vector(slot.logits.size(), slot.seen)));
  }
}

}  // namespace
}  // namespace lockstep::kernels
