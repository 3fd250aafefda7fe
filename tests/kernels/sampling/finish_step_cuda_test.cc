#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/sampling/finish_step.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/sampling/sample_cuda_batch.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;
using testing::SamplerHostState;

constexpr uint32_t kCapacity = 2, kMaxRows = 12;
constexpr size_t kSlots = 6;
constexpr int64_t kVocabSize = 50;
constexpr int64_t kMaxContext = 20;

template <typename T>
T* Zeroed(PinnedBuffer& buffer, size_t count) {
  absl::StatusOr<PinnedBuffer> created = PinnedBuffer::Create(count * sizeof(T));
  LOCKSTEP_CHECK(created.ok(), "{}", Message(created.status()));
  buffer = *std::move(created);
  std::memset(buffer.data(), 0, buffer.num_bytes());
  return buffer.data<T>();
}

class FinishStepCudaTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ring_.capacity = kCapacity;
    ring_.max_rows = kMaxRows;
    ring_.reported = Zeroed<uint64_t>(buffers_[0], kCapacity);
    ring_.begin_ns = Zeroed<uint64_t>(buffers_[1], kCapacity);
    ring_.end_ns = Zeroed<uint64_t>(buffers_[2], kCapacity);
    ring_.rows = Zeroed<SampledRow>(buffers_[3], kCapacity * kMaxRows);
    ring_.descriptions = Zeroed<RowDescription>(buffers_[4], kCapacity * kMaxRows);
    next_.emplace(std::vector<uint64_t>{0});
    ring_.next = next_->data();
    last_token_.emplace(std::vector<TokenId>(kSlots, 7));
    position_.emplace(std::vector<uint32_t>{10, 11, 12, 13, 14, 15});
    active_.emplace(std::vector<uint32_t>(kSlots, 1));
  }

  void Finish(const std::vector<uint32_t>& slots, const std::vector<TokenId>& tokens,
              const std::vector<uint32_t>& statuses,
              const std::vector<RowDescription>& descriptions = {},
              const DraftRows& draft_rows = {}) {
    const DeviceArray<DeviceSampleParams> params(host_.all_params());
    const DeviceArray<TokenId> list_ids(host_.list_ids()), device_tokens(tokens);
    const DeviceArray<uint32_t> device_slots(slots), device_statuses(statuses);
    const DeviceArray<RowDescription> device_descriptions(descriptions);
    const DeviceArray<uint64_t> begin_ns(std::vector<uint64_t>{42});
    if (!counts_) counts_.emplace(host_.counts());
    ASSERT_THAT(
        FinishStep(stream_,
                   {.row_slots = device_slots.data(),
                    .draft_rows = draft_rows,
                    .tokens = device_tokens.data(),
                    .statuses = device_statuses.data(),
                    .descriptions = descriptions.empty() ? nullptr : device_descriptions.data(),
                    .num_rows = static_cast<int64_t>(slots.size()),
                    .vocab_size = kVocabSize,
                    .state = {.last_token = last_token_->data(),
                              .position = position_->data(),
                              .active = active_->data(),
                              .num_slots = kSlots},
                    .tables = {.params = params.data(),
                               .list_ids = list_ids.data(),
                               .token_counts = counts_->data()},
                    .known_tokens = known_tokens_ ? known_tokens_->data() : nullptr,
                    .max_context_tokens = kMaxContext,
                    .begin_ns = begin_ns.data(),
                    .ring = ring_}),
        IsOk());
    Synchronize();
  }

  SlotState State() const {
    return {.last_token = last_token_->data(),
            .position = position_->data(),
            .active = active_->data(),
            .num_slots = kSlots};
  }

  // A graph of as many iterations as the ring holds; each launch may start before the one in front
  // of it has ended.
  void Capture(const SampleRowsParams& sample, RowDescription* descriptions,
               cudaGraphExec_t* executable) const {
    CudaStream stream = stream_;
    stream.overlap_launches = true;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    for (uint32_t i = 0; i < kCapacity; ++i) {
      ASSERT_THAT(SampleRows(stream, sample), IsOk());
      ASSERT_THAT(DescribeRows(stream, {.logits = sample.logits,
                                        .row_stride = sample.row_stride,
                                        .num_rows = sample.num_rows,
                                        .vocab_size = sample.vocab_size,
                                        .tokens = sample.tokens,
                                        .num_best = sample.num_best,
                                        .descriptions = descriptions}),
                  IsOk());
      ASSERT_THAT(FinishStep(stream, {.row_slots = sample.row_slots,
                                      .tokens = sample.tokens,
                                      .statuses = sample.statuses,
                                      .descriptions = descriptions,
                                      .num_rows = sample.num_rows,
                                      .vocab_size = sample.vocab_size,
                                      .state = sample.state,
                                      .tables = sample.tables,
                                      .ring = ring_}),
                  IsOk());
    }
    ASSERT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(executable, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }

  static bool IsRow(const SampledRow& row, const SampledRow& expected) {
    return row.slot == expected.slot && row.token == expected.token &&
           row.status == expected.status && row.stop_cause == expected.stop_cause;
  }

  SamplerHostState host_{kSlots, kVocabSize};
  ResultRing ring_;
  PinnedBuffer buffers_[5];
  std::optional<DeviceArray<uint64_t>> next_;
  std::optional<DeviceArray<TokenId>> last_token_, known_tokens_;
  std::optional<DeviceArray<uint32_t>> position_, active_, counts_;
};

TEST_F(FinishStepCudaTest, ASampledTokenBecomesTheSlotsLast) {
  host_.Set(0, {}, {});
  host_.Set(2, {}, {});
  Finish({2, kNoSlot, 0}, {31, 0, 32}, {kSampled, kNotSampled, kSampled});
  EXPECT_EQ(last_token_->Read(), (std::vector<TokenId>{32, 7, 31, 7, 7, 7}));
  EXPECT_EQ(position_->Read(), (std::vector<uint32_t>{11, 11, 13, 13, 14, 15}));
  EXPECT_EQ(active_->Read(), (std::vector<uint32_t>(kSlots, 1)));
  EXPECT_TRUE(IsRow(ring_.rows[0], {2, 31, kSampled, kStillRuns}));
  EXPECT_TRUE(IsRow(ring_.rows[1], {kNoSlot, 0, kNotSampled, kStillRuns}));
  EXPECT_TRUE(IsRow(ring_.rows[2], {0, 32, kSampled, kStillRuns}));
}

TEST_F(FinishStepCudaTest, StopIdsLengthAndFailuresEndASequence) {
  SampleParams stops;
  stops.stop_token_ids = {5, 9};
  for (uint32_t slot = 0; slot < 5; ++slot) host_.Set(slot, stops, {});
  host_.params(1).max_total_tokens = 13;  // positions 0 .. 11 are known, 12 is sampled: 13 tokens
  host_.params(2).max_total_tokens = 15;  // one more is to come
  host_.params(3).max_total_tokens = 15;
  Finish({0, 1, 2, 3, 4}, {9, 8, 8, 5, 0}, {kSampled, kSampled, kSampled, kSampled, kNoTokenLeft});
  EXPECT_EQ(active_->Read(), (std::vector<uint32_t>{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(ring_.rows[0].stop_cause, kStoppedByToken);
  EXPECT_EQ(ring_.rows[1].stop_cause, kStoppedByLength);
  EXPECT_EQ(ring_.rows[2].stop_cause, kStillRuns);
  EXPECT_EQ(ring_.rows[3].stop_cause, kStoppedByToken);
  EXPECT_EQ(ring_.rows[4].status, kNoTokenLeft);
}

// Slots 0, 1 and 2 with rows for two or three drafts each, at positions 10, 11 and 12.
class FinishDraftsCudaTest : public FinishStepCudaTest {
 protected:
  static constexpr uint32_t kMaxDrafts = 3;

  void SetUp() override {
    FinishStepCudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    known_tokens_.emplace(std::vector<TokenId>(kSlots * kMaxContext, 0));
    for (uint32_t slot = 0; slot < 3; ++slot) host_.Set(slot, {}, {});
  }

  // `drafts`: of slots 0 to 2.
  void FinishDrafts(const std::vector<std::vector<TokenId>>& drafts,
                    const std::vector<TokenId>& tokens, std::vector<uint32_t> statuses = {}) {
    const std::vector<uint32_t> slots = {kNoSlot, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2};
    const DeviceArray<uint32_t> numbers(std::vector<uint32_t>{0, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3});
    std::vector<uint32_t> num_drafts(kSlots, 0);
    std::vector<TokenId> table(kSlots * kMaxDrafts, 99);
    for (size_t slot = 0; slot < drafts.size(); ++slot) {
      num_drafts[slot] = static_cast<uint32_t>(drafts[slot].size());
      std::copy(drafts[slot].begin(), drafts[slot].end(),
                table.begin() + static_cast<ptrdiff_t>(slot * kMaxDrafts));
    }
    if (statuses.empty()) statuses.assign(slots.size(), kSampled);
    statuses[0] = kNotSampled;
    const DeviceArray<TokenId> device_table(table);
    const DeviceArray<uint32_t> device_num_drafts(num_drafts);
    Finish(slots, tokens, statuses, {},
           {.numbers = numbers.data(),
            .table = {.tokens = device_table.data(),
                      .num_drafts = device_num_drafts.data(),
                      .max_drafts = kMaxDrafts}});
  }
  std::vector<uint32_t> Statuses() const {
    std::vector<uint32_t> statuses;
    for (size_t row = 0; row < 12; ++row) statuses.push_back(ring_.rows[row].status);
    return statuses;
  }
};

constexpr uint32_t kKept = kSampled, kNot = kNotKept, kNone = kNotSampled;

TEST_F(FinishDraftsCudaTest, TokensCountAsFarAsTheDraftsWereRight) {
  // All drafts of slot 0 are right. The second of slot 1 is wrong, and the first of slot 2, of
  // which the others would be right.
  FinishDrafts({{20, 21, 22}, {30, 31}, {40, 41, 42}},
               {0, 20, 21, 22, 23, 30, 33, 34, 45, 41, 42, 43});
  EXPECT_EQ(Statuses(), (std::vector<uint32_t>{kNone, kKept, kKept, kKept, kKept, kKept, kKept,
                                               kNot, kKept, kNot, kNot, kNot}));
  EXPECT_EQ(position_->Read(), (std::vector<uint32_t>{14, 13, 13, 13, 14, 15}));
  EXPECT_EQ(last_token_->Read(), (std::vector<TokenId>{23, 33, 45, 7, 7, 7}));
  EXPECT_EQ(active_->Read(), (std::vector<uint32_t>(kSlots, 1)));
  std::vector<TokenId> known(kSlots * kMaxContext, 0);
  for (TokenId i = 0; i < 4; ++i) known[11 + i] = 20 + i;
  known[kMaxContext + 12] = 30;
  known[kMaxContext + 13] = 33;
  known[2 * kMaxContext + 13] = 45;
  EXPECT_EQ(known_tokens_->Read(), known);
  known_tokens_->ExpectGuardsIntact();
  EXPECT_TRUE(IsRow(ring_.rows[7], {1, 34, kNotKept, kStillRuns}));
}

TEST_F(FinishDraftsCudaTest, RowsWithoutADraftAreNoRows) {
  // Slot 0 has one draft, slot 1 none; the tables behind them hold what would be right.
  const std::vector<uint32_t> statuses = {kNone, kKept, kKept, kNone, kNone, kKept,
                                          kNone, kNone, kKept, kNone, kNone, kNone};
  FinishDrafts({{20}, {}, {}}, {0, 20, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}, statuses);
  EXPECT_EQ(Statuses(), statuses);
  EXPECT_EQ(position_->Read(), (std::vector<uint32_t>{12, 12, 13, 13, 14, 15}));
  EXPECT_EQ(last_token_->Read(), (std::vector<TokenId>{99, 99, 99, 7, 7, 7}));
}

TEST_F(FinishDraftsCudaTest, ATextEndsAmongItsDrafts) {
  SampleParams stops;
  stops.stop_token_ids = {21};
  host_.Set(0, stops, {});
  host_.params(1).max_total_tokens = 14;  // positions 0 to 11 are known
  FinishDrafts(
      {{20, 21, 22}, {30, 31}, {40, 41, 42}}, {0, 20, 21, 22, 23, 30, 31, 32, 40, 0, 42, 43},
      {kNone, kKept, kKept, kKept, kKept, kKept, kKept, kKept, kKept, kNoTokenLeft, kKept, kKept});
  EXPECT_EQ(Statuses(), (std::vector<uint32_t>{kNone, kKept, kKept, kNot, kNot, kKept, kKept, kNot,
                                               kKept, kNoTokenLeft, kNot, kNot}));
  EXPECT_EQ(ring_.rows[2].stop_cause, kStoppedByToken);
  EXPECT_EQ(ring_.rows[6].stop_cause, kStoppedByLength);
  EXPECT_EQ(position_->Read(), (std::vector<uint32_t>{12, 13, 13, 13, 14, 15}));
  EXPECT_EQ(active_->Read(), (std::vector<uint32_t>{0, 0, 0, 1, 1, 1}));
}

TEST_F(FinishStepCudaTest, EntriesFollowOneAnotherInTheRing) {
  for (uint64_t serial = 0; serial < 5; ++serial) {
    const auto token = static_cast<TokenId>(serial + 20);
    Finish({3}, {token}, {kSampled});
    const uint64_t entry = serial % kCapacity;
    EXPECT_EQ(ring_.reported[entry], serial + 1);
    EXPECT_EQ(ring_.rows[entry * kMaxRows].token, token);
    EXPECT_EQ(ring_.begin_ns[entry], 42u);
    EXPECT_GE(ring_.end_ns[entry], ring_.end_ns[1 - entry]);
    EXPECT_GT(ring_.end_ns[entry], 0u);
  }
  EXPECT_EQ(next_->Read()[0], 5u);
  EXPECT_EQ(position_->Read()[3], 18u);
}

TEST_F(FinishStepCudaTest, DescriptionsAreCopied) {
  std::vector<RowDescription> descriptions(2);
  for (uint32_t i = 0; i < 2; ++i) {
    descriptions[i] = {.logprob = -1.5f * static_cast<float>(i), .rank = i + 1, .num_best = 20};
    for (uint32_t j = 0; j < kMaxDescribedTokens; ++j) {
      descriptions[i].best_tokens[j] = i * 100 + j;
      descriptions[i].best_logprobs[j] = -0.25f * static_cast<float>(j);
    }
  }
  Finish({0, 1}, {4, 5}, {kSampled, kSampled}, descriptions);
  EXPECT_EQ(std::memcmp(ring_.descriptions, descriptions.data(), 2 * sizeof(RowDescription)), 0);
}

TEST_F(FinishStepCudaTest, CountsFollowTheTokens) {
  const SampleParams penalised{{.presence_penalty = 1.0f}};
  host_.Set(4, penalised, {});
  host_.Set(5, penalised, {});
  counts_.emplace(host_.counts());
  const std::vector<TokenId> known = {3, 3, 8, 8, 9, 3};  // three of them prompt
  const DeviceArray<TokenId> tokens(known);
  const DeviceArray<CountUpdate> updates(
      std::vector<CountUpdate>{{.count_row = host_.params(5).count_row,
                                .num_known = 6,
                                .num_prompt = 3,
                                .token_offset = 0}});
  ASSERT_THAT(CountTokens(stream_, {.updates = updates.data(),
                                    .tokens = tokens.data(),
                                    .num_updates = 1,
                                    .vocab_size = kVocabSize,
                                    .token_counts = counts_->data()}),
              IsOk());
  Finish({5, 4}, {3, 10}, {kSampled, kSampled});
  Finish({5, 4}, {11, 10}, {kSampled, kSampled});
  std::vector<uint32_t> expected(2 * kVocabSize, 0);
  const size_t row4 = host_.params(4).count_row * kVocabSize;
  const size_t row5 = host_.params(5).count_row * kVocabSize;
  expected[row5 + 3] = 3;  // in the prompt, and generated twice
  expected[row5 + 8] = 2;  // in the prompt, and generated once
  expected[row5 + 9] = 2;
  expected[row5 + 11] = 2;  // generated once
  expected[row4 + 10] = 3;
  EXPECT_EQ(counts_->Read(), expected);
}

// The tokens that the CPU samples, one after the other, from logits that stay the same.
class CpuSequence {
 public:
  CpuSequence(const SampleParams& params, std::vector<float> logits)
      : params_(params), logits_(std::move(logits)) {}

  TokenId Next() {
    SampleWorkspace workspace(static_cast<uint32_t>(logits_.size()));
    std::vector<float> scratch = logits_;
    const absl::StatusOr<TokenId> token =
        SampleToken(params_, {.logits = scratch, .seen_tokens = seen_}, workspace);
    LOCKSTEP_CHECK(token.ok(), "{}", Message(token.status()));
    const auto entry = std::find_if(seen_.begin(), seen_.end(),
                                    [&](const TokenCount& count) { return count.token == *token; });
    if (entry == seen_.end()) {
      seen_.push_back({*token, 1});
    } else {
      ++entry->num_generated;
    }
    return *token;
  }

 private:
  const SampleParams params_;
  const std::vector<float> logits_;
  std::vector<TokenCount> seen_;
};

// Sample, describe, finish, over and over in a graph of overlapping launches: the device feeds
// itself. Greedy with penalties, so that the CPU knows every token.
TEST_F(FinishStepCudaTest, DecodeRunsWithoutTheHost) {
  const SampleParams penalised{
      {.temperature = 0.0f, .presence_penalty = 0.5f, .frequency_penalty = 0.3f}};
  constexpr uint32_t kRows = 3, kLaunches = 5;
  std::vector<float> logits;
  std::vector<CpuSequence> expected;
  for (uint32_t slot = 0; slot < kRows; ++slot) {
    host_.Set(slot, penalised, {});
    host_.params(slot).num_logprobs = 3;
    const std::vector<float> row = testing::GaussianLogits(kVocabSize, slot, 1.0f);
    logits.insert(logits.end(), row.begin(), row.end());
    expected.emplace_back(penalised, row);
  }
  const DeviceArray<float> device_logits(logits);
  const DeviceArray<DeviceSampleParams> params(host_.all_params());
  const DeviceArray<uint32_t> slots(std::vector<uint32_t>{0, 1, 2}), counts(host_.counts());
  const DeviceArray<TokenId> tokens(kRows);
  const DeviceArray<uint32_t> statuses(kRows);
  const DeviceArray<int32_t> num_best(kRows);
  const DeviceArray<RowDescription> descriptions(kRows);
  const SampleRowsParams sample = {
      .logits = device_logits.data(),
      .row_stride = kVocabSize,
      .num_rows = kRows,
      .vocab_size = kVocabSize,
      .row_slots = slots.data(),
      .state = State(),
      .tables = {.params = params.data(), .token_counts = counts.data()},
      .tokens = tokens.data(),
      .statuses = statuses.data(),
      .num_best = num_best.data()};
  cudaGraphExec_t graph = nullptr;
  Capture(sample, descriptions.data(), &graph);
  for (uint32_t launch = 0; launch < kLaunches; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(graph, stream_.handle), cudaSuccess);
    Synchronize();
    for (uint32_t entry = 0; entry < kCapacity; ++entry) {
      for (uint32_t row = 0; row < kRows; ++row) {
        ASSERT_EQ(ring_.rows[entry * kMaxRows + row].token, expected[row].Next()) << launch;
        EXPECT_EQ(ring_.descriptions[entry * kMaxRows + row].num_best, 3u);
      }
    }
  }
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(FinishStepCudaTest, MoreRowsThanTheRingHoldsAreAnError) {
  EXPECT_EQ(FinishStep(stream_, {.num_rows = kMaxRows + 1, .ring = ring_}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::kernels
