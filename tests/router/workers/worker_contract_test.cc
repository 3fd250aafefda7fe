#include "router/workers/worker_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/lease_epoch.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const ExpectedModel kExpected = {
    .model_fingerprint = 0xabc, .tokenizer_fingerprint = 0xdef, .vocab_size = 100};

worker::v1::DescribeResponse Fitting() {
  worker::v1::DescribeResponse description;
  description.set_protocol_version(kStepProtocolVersion);
  description.set_model_id("tiny");
  description.set_model_fingerprint(0xabc);
  description.set_tokenizer_fingerprint(0xdef);
  description.set_vocab_size(100);
  description.set_max_slots(4);
  description.set_max_step_tokens(64);
  description.set_max_context_tokens(128);
  description.set_max_steps_in_flight(3);
  worker::v1::KvGroup* const group = description.add_kv_groups();
  group->set_block_size_tokens(16);
  group->set_num_blocks(32);
  return description;
}

TEST(CheckDescriptionTest, AcceptsAFittingWorkerOfThisOrTheLastProtocol) {
  worker::v1::DescribeResponse description = Fitting();
  EXPECT_TRUE(CheckDescription(description, kExpected).ok());
  description.set_protocol_version(kOldestStepProtocolVersion);
  EXPECT_TRUE(CheckDescription(description, kExpected).ok());
}

TEST(CheckDescriptionTest, AcceptsAWorkerWithoutATokenizer) {
  worker::v1::DescribeResponse description = Fitting();
  description.set_tokenizer_fingerprint(0);
  EXPECT_TRUE(CheckDescription(description, kExpected).ok());
}

void ExpectMismatch(const std::function<void(worker::v1::DescribeResponse&)>& change,
                    const std::string& message) {
  worker::v1::DescribeResponse description = Fitting();
  change(description);
  const absl::Status status = CheckDescription(description, kExpected);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr(message));
}

TEST(CheckDescriptionTest, NamesWhatDoesNotFit) {
  using Description = worker::v1::DescribeResponse;
  ExpectMismatch([](Description& d) { d.set_protocol_version(kStepProtocolVersion + 1); },
                 "protocol_version: expected 1 to 2, got 3");
  ExpectMismatch([](Description& d) { d.set_protocol_version(kOldestStepProtocolVersion - 1); },
                 "protocol_version: expected 1 to 2, got 0");
  ExpectMismatch(
      [](Description& d) { d.set_model_fingerprint(1); },
      "model_fingerprint: expected 0000000000000abc, got 0000000000000001 (model \"tiny\")");
  ExpectMismatch([](Description& d) { d.set_tokenizer_fingerprint(1); },
                 "tokenizer_fingerprint: expected 0000000000000def, got 0000000000000001");
  ExpectMismatch([](Description& d) { d.set_vocab_size(99); }, "vocab_size: expected 100, got 99");
  ExpectMismatch([](Description& d) { d.clear_kv_groups(); },
                 "kv_groups: expected 1 to 4 groups with protocol version 2, got 0");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_num_blocks(0); },
                 "kv_groups[0].num_blocks: expected 1 to 4194304, got 0");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_block_size_tokens(0); },
                 "kv_groups[0].block_size_tokens: expected 1 to 1024, got 0");
  ExpectMismatch([](Description& d) { d.set_max_slots(0); }, "max_slots");
  ExpectMismatch([](Description& d) { d.set_max_step_tokens(0); }, "max_step_tokens");
  ExpectMismatch([](Description& d) { d.set_max_context_tokens(0); }, "max_context_tokens");
  ExpectMismatch([](Description& d) { d.set_max_steps_in_flight(0); }, "max_steps_in_flight");
}

TEST(CheckDescriptionTest, EveryLimitHasAnUpperBound) {
  using Description = worker::v1::DescribeResponse;
  struct Limit {
    std::string field;
    uint64_t max;
    std::function<void(Description&, uint64_t)> set;
  };
  const auto narrow = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const Limit limits[] = {
      {"kv_groups[0].num_blocks", kMaxWorkerBlocks,
       [&](Description& d, uint64_t v) { d.mutable_kv_groups(0)->set_num_blocks(narrow(v)); }},
      {"kv_groups[0].block_size_tokens", kMaxWorkerBlockSizeTokens,
       [&](Description& d, uint64_t v) {
         d.mutable_kv_groups(0)->set_block_size_tokens(narrow(v));
       }},
      {"max_slots", kMaxWorkerSlots,
       [&](Description& d, uint64_t v) { d.set_max_slots(narrow(v)); }},
      {"max_step_tokens", kMaxWorkerStepTokens,
       [&](Description& d, uint64_t v) { d.set_max_step_tokens(narrow(v)); }},
      {"max_context_tokens", kMaxWorkerContextTokens,
       [&](Description& d, uint64_t v) { d.set_max_context_tokens(narrow(v)); }},
      {"max_logprobs", kMaxWorkerLogprobs,
       [&](Description& d, uint64_t v) { d.set_max_logprobs(narrow(v)); }},
      {"max_steps_in_flight", kMaxWorkerStepsInFlight,
       [&](Description& d, uint64_t v) { d.set_max_steps_in_flight(narrow(v)); }},
      {"max_decode_iterations", kMaxWorkerDecodeIterations,
       [&](Description& d, uint64_t v) { d.set_max_decode_iterations(narrow(v)); }},
      {"max_draft_tokens", kMaxWorkerDraftTokens,
       [&](Description& d, uint64_t v) { d.set_max_draft_tokens(narrow(v)); }},
      {"last_epoch", kHighestEpoch, [](Description& d, uint64_t v) { d.set_last_epoch(v); }}};
  for (const Limit& limit : limits) {
    Description description = Fitting();
    limit.set(description, limit.max);
    EXPECT_TRUE(CheckDescription(description, kExpected).ok())
        << CheckDescription(description, kExpected);
    ExpectMismatch([&](Description& d) { limit.set(d, limit.max + 1); },
                   fmt::format("to {}, got {}", limit.max, limit.max + 1));
    ExpectMismatch([&](Description& d) { limit.set(d, limit.max + 1); }, limit.field + ": ");
  }
}

TEST(CheckDescriptionTest, TheCacheIsBoundedInTokensAsWell) {
  ExpectMismatch(
      [](worker::v1::DescribeResponse& d) {
        d.mutable_kv_groups(0)->set_num_blocks(kMaxWorkerBlocks);
        d.mutable_kv_groups(0)->set_block_size_tokens(kMaxWorkerBlockSizeTokens);
      },
      "kv_groups: expected at most 67108864 tokens in all, got 4294967296");
}

// A second group with a window of 40 tokens.
worker::v1::DescribeResponse WithWindow() {
  worker::v1::DescribeResponse description = Fitting();
  worker::v1::KvGroup* const group = description.add_kv_groups();
  group->set_block_size_tokens(16);
  group->set_num_blocks(5);  // three in the window, and two more
  group->set_window_tokens(40);
  return description;
}

TEST(CheckDescriptionTest, AcceptsSeveralGroups) {
  worker::v1::DescribeResponse description = WithWindow();
  EXPECT_TRUE(CheckDescription(description, kExpected).ok())
      << CheckDescription(description, kExpected);
  while (description.kv_groups_size() < static_cast<int>(kMaxWorkerKvGroups)) {
    *description.add_kv_groups() = description.kv_groups(1);
  }
  EXPECT_TRUE(CheckDescription(description, kExpected).ok());
  *description.add_kv_groups() = description.kv_groups(1);
  EXPECT_THAT(Message(CheckDescription(description, kExpected)),
              HasSubstr("kv_groups: expected 1 to 4 groups with protocol version 2, got 5"));
}

TEST(CheckDescriptionTest, AWorkerOfTheLastProtocolHasOneGroup) {
  worker::v1::DescribeResponse description = WithWindow();
  description.set_protocol_version(kOldestStepProtocolVersion);
  EXPECT_THAT(Message(CheckDescription(description, kExpected)),
              HasSubstr("kv_groups: expected 1 to 1 groups with protocol version 1, got 2"));
}

TEST(CheckDescriptionTest, NamesWhatDoesNotFitOfAGroup) {
  const auto expect = [](const std::function<void(worker::v1::KvGroup&)>& change,
                         const std::string& message) {
    worker::v1::DescribeResponse description = WithWindow();
    change(*description.mutable_kv_groups(1));
    const absl::Status status = CheckDescription(description, kExpected);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(status), HasSubstr(message));
  };
  using Group = worker::v1::KvGroup;
  expect([](Group& g) { g.set_num_blocks(0); },
         "kv_groups[1].num_blocks: expected 1 to 4194304, got 0");
  expect([](Group& g) { g.set_num_blocks(4); },
         "kv_groups[1]: num_blocks is 4, a window of 40 tokens needs at least 5");
  expect([](Group& g) { g.set_block_size_tokens(0); }, "kv_groups[1].block_size_tokens: expected");
  expect(
      [](Group& g) {
        g.set_block_size_tokens(8);
        g.set_num_blocks(7);
      },
      "kv_groups[1]: blocks of 8 tokens beside blocks of 16");
  expect([](Group& g) { g.set_window_tokens(kMaxWorkerWindowTokens + 1); },
         "kv_groups[1].window_tokens: expected 0 to 16777216, got 16777217");
  expect([](Group& g) { g.set_window_tokens(kMaxWorkerWindowTokens); }, "needs at least 1048578");
  expect([](Group& g) { g.set_dtype(std::string(129, 'x')); },
         "kv_groups[1].dtype: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch([](auto& d) { d.mutable_kv_groups(0)->set_window_tokens(32); },
                 "kv_groups[0]: a first group that does not keep all tokens");
}

TEST(CheckDescriptionTest, TheGroupsAreBoundedTogether) {
  worker::v1::DescribeResponse description = WithWindow();
  description.mutable_kv_groups(0)->set_num_blocks(kMaxWorkerBlocks - 5);
  EXPECT_TRUE(CheckDescription(description, kExpected).ok());
  description.mutable_kv_groups(1)->set_num_blocks(6);
  EXPECT_THAT(Message(CheckDescription(description, kExpected)),
              HasSubstr("kv_groups: expected at most 4194304 blocks in all, got 4194305"));
}

TEST(CheckDescriptionTest, TextsAreShortAndQuotedShorter) {
  using Description = worker::v1::DescribeResponse;
  ExpectMismatch([](Description& d) { d.set_device(std::string(129, 'x')); },
                 "device: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch([](Description& d) { d.set_weights_dtype(std::string(129, 'x')); },
                 "weights_dtype: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_dtype(std::string(129, 'x')); },
                 "kv_groups[0].dtype: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch(
      [](Description& d) {
        d.set_model_fingerprint(1);
        d.set_model_id("\n" + std::string(1000, 'x'));
      },
      "(model \"\\x0a" + std::string(99, 'x') + "\"... (1001 bytes))");
  ExpectMismatch([](Description& d) { d.set_model_id(std::string(1 << 20, 'x')); },
                 "bytes, expected at most 65536");
}

TEST(CheckDescriptionTest, ReportsEverythingAtOnce) {
  const absl::Status status = CheckDescription(worker::v1::DescribeResponse(), kExpected);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("model_fingerprint"), HasSubstr("vocab_size"), HasSubstr("kv_groups"),
                    HasSubstr("max_slots"), HasSubstr("max_step_tokens")));
}

TEST(LimitsOfTest, TakesThemFromTheDescription) {
  const WorkerLimits limits = LimitsOf(Fitting());
  ASSERT_EQ(limits.kv_groups.size(), 1u);
  EXPECT_EQ(limits.kv_groups[0].num_blocks, 32u);
  EXPECT_EQ(limits.kv_groups[0].retention, Retention::kAll);
  EXPECT_EQ(limits.block_size_tokens(), 16u);
  EXPECT_EQ(limits.max_slots, 4u);
  EXPECT_EQ(limits.max_step_tokens, 64u);
  EXPECT_EQ(limits.max_context_tokens, 128u);
  EXPECT_EQ(limits.max_steps_in_flight, 3u);
  EXPECT_EQ(limits.max_decode_iterations, 1u);  // 0 on the wire means none more
  EXPECT_EQ(limits.max_draft_tokens, 0u);
  worker::v1::DescribeResponse drafting = Fitting();
  drafting.set_max_draft_tokens(5);
  EXPECT_EQ(LimitsOf(drafting).max_draft_tokens, 5u);
}

TEST(MaxResultBytesTest, DraftsAreKeptBesideOneToken) {
  worker::v1::DescribeResponse description = Fitting();
  const size_t without = MaxResultBytes(description);
  description.set_max_draft_tokens(7);
  const size_t with_drafts = MaxResultBytes(description);
  EXPECT_GT(with_drafts, without);
  description.set_max_draft_tokens(0);
  description.set_max_decode_iterations(8);
  EXPECT_EQ(MaxResultBytes(description), with_drafts);
}

TEST(LimitsOfTest, TakesEveryGroup) {
  const WorkerLimits limits = LimitsOf(WithWindow());
  ASSERT_EQ(limits.kv_groups.size(), 2u);
  EXPECT_EQ(limits.kv_groups[0].retention, Retention::kAll);
  EXPECT_EQ(limits.kv_groups[1].retention, Retention::kWindow);
  EXPECT_EQ(limits.kv_groups[1].window_tokens, 40u);
  EXPECT_EQ(limits.kv_groups[1].num_blocks, 5u);
  EXPECT_EQ(limits.kv_groups[1].block_size_tokens, 16u);
  EXPECT_TRUE(limits.Validate().ok());
}

TEST(MaxResultBytesTest, HoldsTheLargestResultThatTheLimitsAllow) {
  for (const uint32_t max_logprobs : {0u, 1u, 20u, kMaxWorkerLogprobs}) {
    worker::v1::DescribeResponse description = Fitting();
    description.set_max_logprobs(max_logprobs);
    description.set_max_decode_iterations(8);
    worker::v1::StepResult result;
    const auto fill = [max_logprobs](worker::v1::TokenLogprobs& entry) {
      entry.set_slot(kMaxWorkerSlots);
      entry.set_token_id(UINT32_MAX);
      entry.set_logprob(-1);
      entry.set_rank(UINT32_MAX);
      for (uint32_t i = 0; i < max_logprobs; ++i) {
        entry.add_top_ids(UINT32_MAX);
        entry.add_top_logprobs(-1);
      }
    };
    for (uint32_t slot = 0; slot < description.max_slots(); ++slot) {
      result.add_sampled_slots(kMaxWorkerSlots);
      result.add_sampled_counts(8);
      result.add_stopped_slots(kMaxWorkerSlots);
      result.add_inert_slots(kMaxWorkerSlots);
      result.add_stop_causes(worker::v1::STOP_CAUSE_LENGTH);
      result.add_errors()->set_message(std::string(100, 'x'));
      for (uint32_t i = 0; i < description.max_decode_iterations(); ++i) {
        result.add_token_ids(UINT32_MAX);
        fill(*result.add_logprobs());
      }
    }
    worker::v1::PromptLogprobs& prompt = *result.add_prompt_logprobs();
    for (uint32_t i = 0; i < description.max_step_tokens(); ++i) fill(*prompt.add_entries());
    EXPECT_LE(result.ByteSizeLong(), MaxResultBytes(description)) << max_logprobs;
  }
  // That of the default worker on a GPU.
  worker::v1::DescribeResponse description = Fitting();
  description.set_max_slots(512);
  description.set_max_step_tokens(8192);
  description.set_max_logprobs(20);
  description.set_max_decode_iterations(8);
  EXPECT_LT(MaxResultBytes(description), size_t{4} << 20);
}

}  // namespace
}  // namespace lockstep::router
