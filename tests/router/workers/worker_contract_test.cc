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
                 "protocol_version: expected 1 to 1, got 2");
  ExpectMismatch([](Description& d) { d.set_protocol_version(kOldestStepProtocolVersion - 1); },
                 "protocol_version: expected 1 to 1, got 0");
  ExpectMismatch(
      [](Description& d) { d.set_model_fingerprint(1); },
      "model_fingerprint: expected 0000000000000abc, got 0000000000000001 (model \"tiny\")");
  ExpectMismatch([](Description& d) { d.set_tokenizer_fingerprint(1); },
                 "tokenizer_fingerprint: expected 0000000000000def, got 0000000000000001");
  ExpectMismatch([](Description& d) { d.set_vocab_size(99); }, "vocab_size: expected 100, got 99");
  ExpectMismatch([](Description& d) { d.clear_kv_groups(); }, "kv_groups: expected 1 group, got 0");
  ExpectMismatch([](Description& d) { d.add_kv_groups(); }, "kv_groups: expected 1 group, got 2");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_num_blocks(0); }, "num_blocks");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_block_size_tokens(0); },
                 "block_size_tokens");
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
      {"kv_groups.num_blocks", kMaxWorkerBlocks,
       [&](Description& d, uint64_t v) { d.mutable_kv_groups(0)->set_num_blocks(narrow(v)); }},
      {"kv_groups.block_size_tokens", kMaxWorkerBlockSizeTokens,
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
      "kv_groups: expected at most 67108864 tokens, got 4294967296");
}

TEST(CheckDescriptionTest, TextsAreShortAndQuotedShorter) {
  using Description = worker::v1::DescribeResponse;
  ExpectMismatch([](Description& d) { d.set_device(std::string(129, 'x')); },
                 "device: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch([](Description& d) { d.set_weights_dtype(std::string(129, 'x')); },
                 "weights_dtype: expected at most 128 bytes, got 129 bytes");
  ExpectMismatch([](Description& d) { d.mutable_kv_groups(0)->set_dtype(std::string(129, 'x')); },
                 "kv_groups.dtype: expected at most 128 bytes, got 129 bytes");
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
