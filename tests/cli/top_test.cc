#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/top/frame.h"
#include "cli/top/metrics_text.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(MetricsTextTest, AddsUpTheSeriesThatHaveTheLabels) {
  const MetricsText metrics = MetricsText::Parse(
      "# HELP blocks of all\n# TYPE blocks gauge\n"
      "blocks{model=\"m\",state=\"free\"} 3\nblocks{model=\"m\",state=\"used\"} 4 \n"
      "blocks{model=\"a \\\"b\\\"\",state=\"free\"} 5\nplain 1e2\nbroken{ x\n");
  EXPECT_EQ(metrics.Sum("blocks", {{"state", "free"}}), 8);
  EXPECT_EQ(metrics.Sum("blocks", {{"model", "a \"b\""}}), 5);
  EXPECT_EQ(metrics.Sum("plain"), 100);
  EXPECT_EQ(metrics.Sum("none"), std::nullopt);
  EXPECT_THAT(metrics.LabelsWith("blocks", "state", 3), ElementsAre("free"));
}

TEST(MetricsTextTest, AHostileServerGetsNoMoreThanSoManySamples) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "x 1\n";
  EXPECT_EQ(MetricsText::Parse(text).Sum("x"), 262'144);
}

TEST(MetricsTextTest, BucketsAreAddedUpAndInOrder) {
  const MetricsText metrics = MetricsText::Parse(
      "h_bucket{le=\"+Inf\"} 9\nh_bucket{le=\"0.5\"} 2\nh_bucket{le=\"0.1\"} 1\n"
      "h_bucket{le=\"0.5\",worker=\"b\"} 10\n");
  EXPECT_THAT(metrics.Buckets("h"), ElementsAre(Pair(0.1, 1), Pair(0.5, 12), Pair(kInfinity, 9)));
}

TEST(QuantileTest, CountsOnlyWhatIsNew) {
  const std::vector<std::pair<double, double>> before = {{1, 10}, {2, 10}, {kInfinity, 10}};
  const std::vector<std::pair<double, double>> after = {{1, 10}, {2, 20}, {kInfinity, 20}};
  EXPECT_EQ(QuantileBetween(before, after, 0.5), 1.5);
  EXPECT_EQ(QuantileBetween({}, after, 0.5), 1.0);
  EXPECT_EQ(QuantileBetween(after, after, 0.5), std::nullopt);
  EXPECT_EQ(QuantileBetween({}, {}, 0.5), std::nullopt);
  EXPECT_EQ(QuantileBetween({}, {{1, 0}, {kInfinity, 4}}, 0.99), 1.0);
}

std::string Scrape(int tokens, int first_tokens) {
  return "lockstep_router_build_info{model=\"tiny\",commit=\"c\",version=\"1\"} 1\n"
         "lockstep_router_running_requests{model=\"tiny\"} 3\n"
         "lockstep_router_queue_requests{model=\"tiny\"} 2\n"
         "lockstep_router_worker_state{model=\"tiny\",state=\"ready\",worker=\"a\"} 1\n"
         "lockstep_router_worker_state{model=\"tiny\",state=\"lost\",worker=\"a\"} 0\n"
         "lockstep_router_worker_state{model=\"tiny\",state=\"lost\",worker=\"b\"} 1\n"
         "lockstep_router_kv_blocks{model=\"tiny\",state=\"free\"} 50\n"
         "lockstep_router_kv_blocks{model=\"tiny\",state=\"used\"} 25\n"
         "lockstep_router_kv_blocks{model=\"tiny\",state=\"cached\"} 25\n"
         "lockstep_router_prompt_tokens_total{model=\"tiny\"} 7\n"
         "lockstep_router_generation_tokens_total{model=\"tiny\"} " +
         std::to_string(tokens) +
         "\n"
         "lockstep_router_time_to_first_token_seconds_bucket{le=\"0.02\",model=\"tiny\"} " +
         std::to_string(first_tokens) +
         "\n"
         "lockstep_router_time_to_first_token_seconds_bucket{le=\"+Inf\",model=\"tiny\"} " +
         std::to_string(first_tokens) + "\n";
}

TEST(TopFrameTest, ShowsWhatHappenedBetweenTwoScrapes) {
  const MetricsText before = MetricsText::Parse(Scrape(100, 0));
  const MetricsText after = MetricsText::Parse(Scrape(300, 10));
  EXPECT_THAT(
      TopFrame(&before, after, absl::Seconds(2), {}),
      AllOf(HasSubstr("model        tiny\n"), HasSubstr("1 lost, 1 ready\n"),
            HasSubstr("3 running, 2 waiting\n"), HasSubstr("0 in, 100 out\n"),
            HasSubstr("first token  p50 10 ms, p99 20 ms\n"),
            HasSubstr("next token   p50 -, p99 -\n"),
            HasSubstr("25 % used, 25 % cached, 100 blocks\n"), HasSubstr("the last 2.0 s")));
}

TEST(TopFrameTest, ShowsDraftsIfThereWereAny) {
  const auto scrape = [](int rounds, int drafted, int accepted) {
    return MetricsText::Parse(
        "lockstep_router_spec_decode_rounds_total{drafts=\"0\"} 100\n"
        "lockstep_router_spec_decode_rounds_total{drafts=\"4\"} " +
        std::to_string(rounds) + "\nlockstep_router_spec_decode_draft_tokens_total " +
        std::to_string(drafted) + "\nlockstep_router_spec_decode_accepted_tokens_total " +
        std::to_string(accepted) + "\n");
  };
  const MetricsText before = scrape(10, 40, 20);
  EXPECT_THAT(TopFrame(&before, scrape(20, 80, 50), absl::Seconds(2), {}),
              HasSubstr("drafts       4.00 tokens a round, 75 % of the drafts right\n"));
  EXPECT_THAT(TopFrame(&before, before, absl::Seconds(2), {}), Not(HasSubstr("drafts")));
  EXPECT_THAT(TopFrame(nullptr, scrape(0, 0, 0), absl::ZeroDuration(), {}),
              Not(HasSubstr("drafts")));
}

TEST(TopFrameTest, OneScrapeHasNoRates) {
  const MetricsText after = MetricsText::Parse(Scrape(300, 10));
  EXPECT_THAT(
      TopFrame(nullptr, after, absl::ZeroDuration(), {}),
      AllOf(HasSubstr("- in, - out\n"), HasSubstr("p50 10 ms"), HasSubstr("since the start")));
}

}  // namespace
}  // namespace lockstep::cli
