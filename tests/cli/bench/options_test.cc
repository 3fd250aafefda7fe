#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/bench_options.h"
#include "cli/verbs.h"
#include "common/status.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<BenchOptions> ParseBench(const std::vector<std::string>& words) {
  return ParseBenchOptions(*FindVerb("bench"), words);
}

TEST(BenchOptionsTest, WithoutAnyItIsAClosedLoopOfHalfAMinute) {
  const auto options = ParseBench({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->targets.size(), 1);
  EXPECT_EQ(options->loop, BenchLoop::kClosed);
  EXPECT_THAT(options->levels, ElementsAre(16));
  EXPECT_EQ(options->max_seconds, 30);
  EXPECT_EQ(options->max_requests, std::nullopt);
}

TEST(BenchOptionsTest, ReadsALoad) {
  const auto options =
      ParseBench({"--rates", "1,2.5", "--prompt=100-200", "--goodput", "ttft:200ms,e2e:3s", "--vs",
                  "127.0.0.1:9", "--requests", "7", "--api", "grpc"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->loop, BenchLoop::kOpen);
  EXPECT_THAT(options->levels, ElementsAre(1, 2.5));
  EXPECT_EQ(options->random.prompt, (LengthRange{100, 200}));
  EXPECT_EQ(options->bounds.ttft_ms, 200);
  EXPECT_EQ(options->bounds.tpot_ms, std::nullopt);
  EXPECT_EQ(options->bounds.e2e_ms, 3000);
  EXPECT_EQ(options->targets.size(), 2);
  EXPECT_EQ(options->max_requests, 7);
  EXPECT_EQ(options->max_seconds, std::nullopt);
  EXPECT_EQ(options->api, BenchApi::kGrpc);
}

TEST(BenchOptionsTest, AScenarioSendsAllAtOnce) {
  const auto options = ParseBench({"--data", "scenario:balanced_b32"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->levels, ElementsAre(32));
  EXPECT_EQ(options->max_requests, 32);
}

TEST(BenchOptionsTest, ATraceIsPlayedAtItsTimes) {
  const auto options = ParseBench({"--data", "trace:f", "--time-scales", "0.5,1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->loop, BenchLoop::kTrace);
  EXPECT_THAT(options->levels, ElementsAre(0.5, 1));
  EXPECT_EQ(options->data_name, "f");
}

TEST(BenchOptionsTest, ReadsHowAnswersAreDrawn) {
  const auto greedy = ParseBench({});
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(greedy->sampling.temperature, 0.0);
  EXPECT_EQ(greedy->sampling.top_k, 0u);
  const auto drawn = ParseBench({"--temperature", "0.7", "--top-p=0.9", "--top-k", "50"});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->sampling.temperature, 0.7f);
  EXPECT_EQ(drawn->sampling.top_p, 0.9f);
  EXPECT_EQ(drawn->sampling.top_k, 50u);
  EXPECT_THAT(Message(ParseBench({"--top-k", "50"}).status()),
              HasSubstr("--top-p and --top-k need a --temperature above 0"));
  EXPECT_THAT(Message(ParseBench({"--temperature=0.0001", "--top-p=0.5"}).status()),
              HasSubstr("--temperature: expected 0 or a number in [0.001, 100], got 0.0001"));
  EXPECT_THAT(Message(ParseBench({"--temperature=1", "--top-p=0"}).status()),
              HasSubstr("--top-p: expected a number in (0, 1], got 0"));
}

TEST(BenchOptionsTest, TheKeyMayComeFromAFileAndIsNeverReported) {
  const TempFolder folder;
  const auto options = ParseBench({"--api-key", "@" + folder.Write("key", "secret\n")});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->api_key, "secret");
  EXPECT_THAT(Message(ParseBench({"--api-key=a b"}).status()),
              HasSubstr("--api-key: expected one word"));
  const std::vector<std::string> words = {
      "--api-key",        "secret",           "--seed",    "3",
      "--api-key=secret", "--api_key=secret", "--api_key", "secret"};
  EXPECT_EQ(CommandText(*FindVerb("bench"), words),
            "bench --api-key ... --seed 3 --api-key=... --api-key=... --api_key ...");
}

TEST(BenchOptionsTest, EveryErrorIsNamed) {
  const auto expect_error = [](const std::vector<std::string>& words, const std::string& text) {
    EXPECT_THAT(Message(ParseBench(words).status()), HasSubstr(text)) << words[0];
  };
  expect_error({"--streams", "0"}, "--streams");
  expect_error({"--streams", "1,x"}, "\"1,x\"");
  expect_error({"--streams", "1", "--rates", "1"}, "only one of");
  expect_error({"--time-scales", "1"}, "--data trace:FILE");
  expect_error({"--data", "sharegpt"}, "--data");
  expect_error({"--data", "scenario:none"}, "balanced_b32");
  expect_error({"--data", "scenario:balanced_b32", "--streams", "1"}, "all its requests at once");
  expect_error({"--prompt", "0"}, "--prompt");
  expect_error({"--url", "https://a:1"}, "without TLS");
  expect_error({"--goodput", "ttft:fast"}, "--goodput");
  expect_error({"--goodput", "x:1s"}, "\"x:1s\"");
  expect_error({"--api", "soap"}, "--api");
  expect_error({"--api", "chat"}, "sharegpt");
  expect_error({"word"}, "word");
}

}  // namespace
}  // namespace lockstep::cli
