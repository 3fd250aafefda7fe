#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/bench/plan/arrivals.h"
#include "cli/bench/plan/length_range.h"
#include "cli/bench/plan/workload.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr uint64_t kSeed = 7;

std::vector<uint32_t> Prefix(const BenchRequest& request, size_t count) {
  return {request.token_ids.begin(),
          request.token_ids.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(LengthRangeTest, ReadsNumbersSpreadsAndRanges) {
  EXPECT_EQ(*ParseLengthRange("512"), (LengthRange{512, 512}));
  EXPECT_EQ(*ParseLengthRange("512+-50%"), (LengthRange{256, 768}));
  EXPECT_EQ(*ParseLengthRange("1+-100%"), (LengthRange{1, 2}));
  EXPECT_EQ(*ParseLengthRange("100-200"), (LengthRange{100, 200}));
  EXPECT_EQ(FormatLengthRange({100, 200}), "100-200");
  EXPECT_EQ(FormatLengthRange({5, 5}), "5");
}

TEST(LengthRangeTest, RefusesOtherText) {
  for (const char* text : {"", "0", "x", "5+-", "5+-50", "5+-101%", "9-3", "-3", "99999999999"}) {
    EXPECT_THAT(Message(ParseLengthRange(text).status()), HasSubstr(text)) << text;
  }
}

TEST(RandomWorkloadTest, SameSeedSameRequests) {
  const RandomWorkload workload = {.prompt = {10, 20}, .output = {3, 9}};
  EXPECT_EQ(workload.Request(kSeed, 5), workload.Request(kSeed, 5));
  EXPECT_NE(workload.Request(kSeed, 5), workload.Request(kSeed, 6));
  EXPECT_NE(workload.Request(kSeed, 5), workload.Request(kSeed + 1, 5));
}

TEST(RandomWorkloadTest, KeepsToItsRanges) {
  const RandomWorkload workload = {.prompt = {10, 20}, .output = {3, 9}, .vocab_size = 50};
  std::set<size_t> lengths;
  for (uint64_t i = 0; i < 300; ++i) {
    const BenchRequest request = workload.Request(kSeed, i);
    lengths.insert(request.token_ids.size());
    EXPECT_THAT(request.token_ids, Each(AllOf(Ge(3), Lt(50))));
    EXPECT_GE(request.max_tokens, 3);
    EXPECT_LE(request.max_tokens, 9);
  }
  EXPECT_EQ(*lengths.begin(), 10);
  EXPECT_EQ(*lengths.rbegin(), 20);
}

TEST(RandomWorkloadTest, PromptsBeginWithOneOfThePrefixes) {
  const RandomWorkload workload = {
      .prompt = {8, 8}, .output = {1, 1}, .prefix_tokens = 32, .num_prefixes = 3};
  std::set<std::vector<uint32_t>> prefixes;
  std::set<std::vector<uint32_t>> prompts;
  for (uint64_t i = 0; i < 100; ++i) {
    const BenchRequest request = workload.Request(kSeed, i);
    ASSERT_THAT(request.token_ids, SizeIs(40));
    prefixes.insert(Prefix(request, 32));
    prompts.insert(request.token_ids);
  }
  EXPECT_THAT(prefixes, SizeIs(3));
  EXPECT_THAT(prompts, SizeIs(100));
}

TEST(RandomWorkloadTest, EachTurnBeginsWithTheTurnBefore) {
  const RandomWorkload workload = {.prompt = {5, 9}, .output = {1, 1}, .turns = 3};
  const BenchRequest first = workload.Request(kSeed, 3);
  const BenchRequest second = workload.Request(kSeed, 4);
  ASSERT_GT(second.token_ids.size(), first.token_ids.size());
  EXPECT_EQ(Prefix(second, first.token_ids.size()), first.token_ids);
  const BenchRequest other = workload.Request(kSeed, 6);
  EXPECT_NE(Prefix(other, 5), Prefix(first, 5));
}

TEST(BenchScenarioTest, HasTheLengthsOfItsName) {
  const absl::StatusOr<BenchScenario> scenario = FindBenchScenario("mixed_prefill_b32");
  ASSERT_TRUE(scenario.ok());
  EXPECT_THAT(scenario->prompt_lengths, SizeIs(32));
  EXPECT_THAT(scenario->Request(kSeed, 7, 100).token_ids, SizeIs(512));
  EXPECT_EQ(scenario->Request(kSeed, 7, 100).max_tokens, 64);
  EXPECT_THAT(AllBenchScenarios(), SizeIs(7));
  EXPECT_THAT(Message(FindBenchScenario("none").status()),
              AllOf(HasSubstr("\"none\""), HasSubstr("balanced_b32")));
}

TEST(ShareGptTest, EveryAnswerMakesARequest) {
  const auto requests = ParseShareGpt(
      R"([{"id": "a", "conversations": [{"from": "human", "value": "one } \" {"},
          {"from": "gpt", "value": "12345678"}, {"from": "human", "value": "two"},
          {"from": "gpt", "value": "x"}]}])");
  ASSERT_TRUE(requests.ok()) << requests.status();
  EXPECT_THAT(*requests,
              ElementsAre(BenchRequest{.messages = {{"user", "one } \" {"}}, .max_tokens = 2},
                          BenchRequest{.messages = {{"user", "one } \" {"},
                                                    {"assistant", "12345678"},
                                                    {"user", "two"}},
                                       .max_tokens = 1}));
}

TEST(ShareGptTest, ABrokenEndCostsOneConversation) {
  const auto requests = ParseShareGpt(
      R"([{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
          {"conversations": [{"from": "human", "value": "c"}, {"from": "gpt", "val)");
  ASSERT_TRUE(requests.ok());
  EXPECT_THAT(*requests, SizeIs(1));
}

TEST(ShareGptTest, RefusesAFileWithoutConversations) {
  for (const char* text :
       {"", "[]", "[{}]", R"([{"conversations": [{"from": "gpt", "value": "b"}]}])",
        R"([{"conversations": [{"from": 1, "value": "b"}]}])"}) {
    EXPECT_FALSE(ParseShareGpt(text).ok()) << text;
  }
}

TEST(TraceTest, TimesCountFromTheFirstAndEqualHashesAreEqualBlocks) {
  const auto trace = ParseTrace(
      "{\"timestamp\": 12.5, \"input_length\": 40, \"output_length\": 0, \"hash_ids\": [1, 2, 3]}\n"
      "\n{\"timestamp\": 10, \"input_length\": 32, \"output_length\": 7, \"hash_ids\": [1, 2]}",
      16, 1000);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_THAT(*trace, SizeIs(2));
  EXPECT_EQ((*trace)[0].at_seconds, 0.0);
  EXPECT_EQ((*trace)[1].at_seconds, 2.5);
  EXPECT_THAT((*trace)[0].request.token_ids, SizeIs(32));
  EXPECT_THAT((*trace)[1].request.token_ids, SizeIs(40));
  EXPECT_EQ(Prefix((*trace)[1].request, 32), (*trace)[0].request.token_ids);
  EXPECT_EQ((*trace)[0].request.max_tokens, 7);
  EXPECT_EQ((*trace)[1].request.max_tokens, 1);
}

TEST(TraceTest, RefusesALineByItsNumber) {
  EXPECT_THAT(
      Message(
          ParseTrace("{\"timestamp\": 1, \"input_length\": 3, \"output_length\": 1}\n{}", 16, 100)
              .status()),
      AllOf(HasSubstr("line 2"), HasSubstr("timestamp")));
  EXPECT_FALSE(ParseTrace("", 16, 100).ok());
  EXPECT_FALSE(
      ParseTrace("{\"timestamp\": -1, \"input_length\": 3, \"output_length\": 1}", 16, 100).ok());
}

struct Gaps {
  double mean;
  double variation;  // standard deviation over mean
};

Gaps MeasureGaps(double rate, double burstiness) {
  GammaArrivals arrivals(rate, burstiness, kSeed);
  constexpr int kCount = 20000;
  double sum = 0.0;
  double squares = 0.0;
  double before = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double at = arrivals.Next();
    sum += at - before;
    squares += (at - before) * (at - before);
    before = at;
  }
  const double mean = sum / kCount;
  return {.mean = mean, .variation = std::sqrt(squares / kCount - mean * mean) / mean};
}

TEST(GammaArrivalsTest, HaveTheRateAndTheSpreadOfTheirBurstiness) {
  const Gaps poisson = MeasureGaps(50, 1.0);
  EXPECT_NEAR(poisson.mean, 0.02, 0.001);
  EXPECT_NEAR(poisson.variation, 1.0, 0.05);
  const Gaps bursts = MeasureGaps(50, 0.25);
  EXPECT_NEAR(bursts.mean, 0.02, 0.002);
  EXPECT_NEAR(bursts.variation, 2.0, 0.15);
  EXPECT_NEAR(MeasureGaps(50, 100).variation, 0.1, 0.01);
}

}  // namespace
}  // namespace lockstep::cli
