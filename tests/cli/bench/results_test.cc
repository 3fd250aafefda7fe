#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/results/compare.h"
#include "cli/bench/results/plot.h"
#include "cli/bench/results/run_result.h"
#include "cli/bench/results/summary.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Due at `at`; first piece after 100 ms, then one each 10 ms.
RequestRecord Answered(double at, uint32_t num_tokens) {
  RequestRecord record = {.scheduled = at, .sent = at + 0.001, .prompt_tokens = 10};
  for (uint32_t i = 0; i < num_tokens; ++i) record.pieces.push_back(at + 0.1 + 0.01 * i);
  record.output_tokens = num_tokens;
  record.end = record.pieces.back();
  return record;
}

RequestRecord Failed(double at, const std::string& error) {
  RequestRecord record = {.scheduled = at, .sent = at, .end = at + 0.5};
  record.error = error;
  return record;
}

TEST(DescribeTest, PercentilesAreSamples) {
  std::vector<double> samples;
  for (int i = 100; i > 0; --i) samples.push_back(i);
  const Distribution of = Describe(samples);
  EXPECT_EQ(of.mean, 50.5);
  EXPECT_EQ(of.p50, 50);
  EXPECT_EQ(of.p90, 90);
  EXPECT_EQ(of.p99, 99);
  EXPECT_EQ(of.max, 100);
  std::vector<double> one = {3};
  EXPECT_EQ(Describe(one).p99, 3);
  std::vector<double> none;
  EXPECT_EQ(Describe(none).max, 0);
}

TEST(SummarizeTest, LatenciesCountFromWhenARequestWasDue) {
  RequestRecord late = Answered(0, 3);
  late.sent = 0.09;
  const std::vector<RequestRecord> records = {late};
  const BenchSummary summary = Summarize(records, {.begin = 0, .end = 1}, {}, {});
  EXPECT_THAT(summary.ttft_ms.p50, DoubleNear(100, 1e-9));
  EXPECT_THAT(summary.tpot_ms.p50, DoubleNear(10, 1e-9));
  EXPECT_THAT(summary.itl_ms.p99, DoubleNear(10, 1e-9));
  EXPECT_THAT(summary.e2e_ms.p50, DoubleNear(120, 1e-9));
  EXPECT_THAT(summary.late_ms_p99, DoubleNear(90, 1e-9));
  EXPECT_TRUE(summary.generator_limits);
  EXPECT_EQ(summary.output_tokens_per_s, 3);
  EXPECT_EQ(summary.requests_per_s, 1);
}

TEST(SummarizeTest, WarmUpRequestsAreLeftOutButTheirLaterTokensAreThroughput) {
  // Of the first request, tokens at 0.1 .. 1.09 s: 60 of 100 from 0.5 s on.
  const std::vector<RequestRecord> records = {Answered(0, 100), Answered(0.6, 10)};
  const BenchSummary summary = Summarize(records, {.begin = 0.495, .end = 1.495}, {}, {});
  EXPECT_EQ(summary.completed, 1);
  EXPECT_EQ(summary.output_tokens, 10);
  EXPECT_THAT(summary.output_tokens_per_s, DoubleNear(70, 1e-6));
}

TEST(SummarizeTest, TokensBehindTheWindowAreNoThroughput) {
  const std::vector<RequestRecord> records = {Answered(0, 100)};
  const BenchSummary summary = Summarize(records, {.begin = 0, .end = 0.595}, {}, {});
  EXPECT_THAT(summary.output_tokens_per_s * 0.595, DoubleNear(50, 1e-6));
  EXPECT_EQ(summary.requests_per_s, 0);
  EXPECT_EQ(summary.completed, 1);
}

TEST(SummarizeTest, FailuresAreCountedByKindAndHaveNoLatency) {
  const std::vector<RequestRecord> records = {Answered(0, 2), Failed(0, "HTTP 429: full"),
                                              Failed(0.1, "HTTP 429: full"),
                                              Failed(0.2, "the stream broke off")};
  const BenchSummary summary = Summarize(records, {.begin = 0, .end = 1}, {}, {});
  EXPECT_EQ(summary.completed, 1);
  EXPECT_EQ(summary.failed, 3);
  EXPECT_THAT(summary.errors,
              ElementsAre(Pair("HTTP 429: full", 2), Pair("the stream broke off", 1)));
  EXPECT_THAT(summary.e2e_ms.max, DoubleNear(110, 1e-9));
  EXPECT_EQ(summary.good_share, 0.25);
}

// Ctrl-C ended the load while they ran.
TEST(SummarizeTest, WhatTheUserCutOffIsNeitherGoodNorFailed) {
  std::vector<RequestRecord> records = {Answered(0, 2), Failed(0.1, "given up")};
  records[1].cut_off = true;
  const BenchSummary summary = Summarize(records, {.begin = 0, .end = 1}, {}, {});
  EXPECT_EQ(summary.completed, 1);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_THAT(summary.errors, ElementsAre());
  EXPECT_EQ(summary.good_share, 1);
}

TEST(SummarizeTest, ErrorsThatDifferInNumbersCountUnderTheFirst) {
  const std::vector<RequestRecord> records = {Failed(0, "HTTP 400: 4096 tokens are more than 100"),
                                              Failed(0, "HTTP 400: 77 tokens are more than 100"),
                                              Failed(0, "HTTP 503: no worker")};
  EXPECT_THAT(Summarize(records, {.begin = 0, .end = 1}, {}, {}).errors,
              ElementsAre(Pair("HTTP 400: 4096 tokens are more than 100", 2),
                          Pair("HTTP 503: no worker", 1)));
}

TEST(SummarizeTest, GoodRequestsKeepEveryBound) {
  std::vector<RequestRecord> records = {Answered(0, 5), Answered(0, 5), Answered(0, 5)};
  records[1].pieces.front() = 0.3;
  for (double& at : records[2].pieces) at = 0.1 + (at - 0.1) * 10;
  const MeasuredWindow window = {.begin = 0, .end = 2};
  EXPECT_THAT(Summarize(records, window, {.ttft_ms = 200}, {}).good_share,
              DoubleNear(2.0 / 3, 1e-9));
  EXPECT_THAT(Summarize(records, window, {.ttft_ms = 200, .tpot_ms = 50}, {}).good_share,
              DoubleNear(1.0 / 3, 1e-9));
  EXPECT_EQ(Summarize(records, window, {.ttft_ms = 200, .tpot_ms = 50}, {}).goodput, 0.5);
  EXPECT_EQ(Summarize(records, window, {.e2e_ms = 1}, {}).goodput, 0);
}

TEST(SummarizeTest, ABusyThreadMayBeWhatWasMeasured) {
  const std::vector<RequestRecord> records = {Answered(0, 2)};
  const MeasuredWindow window = {.begin = 0, .end = 1};
  const auto with = [&](double share) {
    return Summarize(records, window, {},
                     {.cpu_seconds = 1, .wall_seconds = 2, .busiest_thread_share = share});
  };
  EXPECT_EQ(with(0.5).cpu_share, 0.5);
  EXPECT_FALSE(with(0.5).generator_limits);
  EXPECT_TRUE(with(0.9).generator_limits);
}

RunResult MakeRun(const std::string& load, double tokens_per_s, double ttft_p99, int repeat = 0) {
  RunResult run = {.target = "s", .load = load, .level = 1, .repeat = repeat, .summary = {}};
  run.summary.output_tokens_per_s = tokens_per_s;
  run.summary.ttft_ms = {.mean = 1, .p50 = 1, .p90 = 2, .p99 = ttft_p99, .max = 9};
  run.summary.completed = 5;
  return run;
}

TEST(BenchResultTest, ComesBackFromJson) {
  BenchResult result = {.date = "2026-01-02", .version = "1", .command = "bench --x", .runs = {}};
  result.runs.push_back(MakeRun("1 streams", 100, 7));
  result.runs[0].summary.errors["bad \xff byte"] = 3;
  result.runs[0].summary.generator_limits = true;
  result.runs[0].summary.cached_tokens = 4;
  const absl::StatusOr<BenchResult> read = ParseBenchResult(ToJson(result));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->command, "bench --x");
  ASSERT_EQ(read->runs.size(), 1);
  EXPECT_EQ(read->runs[0].load, "1 streams");
  EXPECT_EQ(read->runs[0].summary.output_tokens_per_s, 100);
  EXPECT_EQ(read->runs[0].summary.ttft_ms.p99, 7);
  EXPECT_EQ(read->runs[0].summary.cached_tokens, 4);
  EXPECT_EQ(read->runs[0].summary.errors.size(), 1);
  EXPECT_TRUE(read->runs[0].summary.generator_limits);
}

TEST(BenchResultTest, OtherJsonIsRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"format\":2}", "{\"format\":\"x\"}", "{\"format\":1}",
        "{\"format\":\"1\"}", "{\"format\":[]}",
        "{\"format\":1,\"date\":\"\",\"version\":\"\",\"command\":\"\",\"runs\":[{}]}"}) {
    EXPECT_THAT(Message(ParseBenchResult(text).status()),
                AllOf(HasSubstr("lockstep bench"), Not(HasSubstr("json.exception"))))
        << text;
  }
}

TEST(BenchResultTest, TheTableNamesFailuresAndABusyGenerator) {
  BenchResult result;
  result.runs.push_back(MakeRun("1 streams", 100, 7));
  EXPECT_THAT(ToMarkdown(result),
              AllOf(HasSubstr("| s | 1 streams |"), Not(HasSubstr(" failed, "))));
  result.runs[0].summary.errors["HTTP 500"] = 2;
  result.runs[0].summary.generator_limits = true;
  EXPECT_THAT(ToMarkdown(result), AllOf(HasSubstr("2 failed, the first with: HTTP 500"),
                                        HasSubstr("may be what was measured")));
}

const Comparison* Find(const std::vector<Comparison>& all, const std::string& figure) {
  for (const Comparison& one : all) {
    if (one.figure == figure) return &one;
  }
  return nullptr;
}

TEST(CompareTest, AChangeCountsAboveThresholdAndNoise) {
  const std::vector<RunResult> before = {MakeRun("a", 100, 10, 0), MakeRun("a", 102, 10, 1)};
  const std::vector<RunResult> after = {MakeRun("a", 90, 12, 0), MakeRun("a", 92, 8, 1)};
  const std::vector<Comparison> found = Compare(before, after, 0.05);
  const Comparison* tokens = Find(found, "output_tokens_per_s");
  ASSERT_NE(tokens, nullptr);
  EXPECT_THAT(tokens->change, DoubleNear(-0.099, 0.001));
  EXPECT_EQ(tokens->verdict, Verdict::kWorse);
  // The repeats of the tail spread by more than the medians differ.
  const Comparison* tail = Find(found, "ttft_ms.p99");
  ASSERT_NE(tail, nullptr);
  EXPECT_THAT(tail->noise, DoubleNear(0.2, 1e-9));
  EXPECT_EQ(tail->verdict, Verdict::kSame);
  EXPECT_EQ(Find(Compare(before, after, 0.2), "output_tokens_per_s")->verdict, Verdict::kSame);
}

TEST(CompareTest, LessLatencyIsBetter) {
  const std::vector<RunResult> before = {MakeRun("a", 100, 10)};
  const std::vector<RunResult> after = {MakeRun("a", 120, 5), MakeRun("b", 1, 1)};
  const std::vector<Comparison> found = Compare(before, after, 0.05);
  EXPECT_EQ(Find(found, "ttft_ms.p99")->verdict, Verdict::kBetter);
  EXPECT_EQ(Find(found, "output_tokens_per_s")->verdict, Verdict::kBetter);
  EXPECT_THAT(ToMarkdown(found), AllOf(HasSubstr("better"), HasSubstr("-50.0 %")));
  EXPECT_TRUE(Compare(before, std::vector<RunResult>{MakeRun("b", 1, 1)}, 0.05).empty());
}

TEST(PlotTest, CumulativeLinesEndAtOne) {
  EXPECT_THAT(CumulativeLine("x", {3, 1}).points, ElementsAre(Pair(1, 0.5), Pair(3, 1)));
  EXPECT_TRUE(CumulativeLine("x", {}).points.empty());
}

TEST(PlotTest, SvgHasEveryLineAndEscapesNames) {
  const std::string svg = ToSvg(
      {.title = "a<b",
       .x_label = "x & y",
       .y_label = "y",
       .lines = {{.name = "\"one\"", .points = {{0, 0}, {2, 4}}}, {.name = "two", .points = {}}}});
  EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;b"), HasSubstr("x &amp; y"), HasSubstr("&quot;one&quot;"),
                         HasSubstr("two"), HasSubstr("points=\"70.0,360.0 740.0,40.0 \"")));
}

TEST(PlotTest, PlotsOfNothingAreImagesAllTheSame) {
  for (const Plot& plot :
       {Plot(), LatencyDistributions("t", {}), ItlOverTime("t", {}), LatencyAgainstLoad({})}) {
    EXPECT_THAT(ToSvg(plot),
                AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  }
}

TEST(PlotTest, TimesBetweenPiecesGoToTheirSecond) {
  const std::vector<RequestRecord> records = {Answered(0, 200)};
  const Plot plot = ItlOverTime("t", records);
  ASSERT_EQ(plot.lines.size(), 2);
  EXPECT_THAT(plot.lines[0].points,
              ElementsAre(Pair(0, DoubleNear(10, 1e-6)), Pair(1, DoubleNear(10, 1e-6)),
                          Pair(2, DoubleNear(10, 1e-6))));
}

}  // namespace
}  // namespace lockstep::cli
