#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common/http_get.h"
#include "cli/top/metrics_text.h"
#include "common/net/address.h"
#include "tests/cli/cli_fixture.h"

// `lockstep bench` against a served model: what it says is what the server counted.
namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class BenchProcessTest : public CliTest {
 protected:
  // Runs to its end; the exit code.
  int Bench(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"bench"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    CliProcess bench(arguments, Options());
    const int code = bench.Wait();
    output_ = bench.output();
    return code;
  }
  // The only run of a result that was written to JsonPath().
  nlohmann::json OnlyRun() const {
    std::ifstream file(JsonPath());
    std::ostringstream text;
    text << file.rdbuf();
    const auto result = nlohmann::json::parse(text.str(), nullptr, false);
    if (!result.is_object() || result["runs"].size() != 1) return {};
    return result["runs"][0];
  }
  std::string JsonPath() const { return home_.path() + "/result.json"; }
  double Counter(const std::string& name) const {
    const auto reply = cli::HttpGet(*ParseAddress(metrics_address_), "/metrics", absl::Seconds(10));
    if (!reply.ok()) return -1;
    return cli::MetricsText::Parse(reply->body).Sum(name).value_or(-1);
  }

  std::string output_;
};

TEST_F(BenchProcessTest, CountsWhatTheServerCounts) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  for (const std::string api : {"completions", "grpc"}) {
    const double prompt_before = Counter("lockstep_router_prompt_tokens_total");
    const double output_before = Counter("lockstep_router_generation_tokens_total");
    ASSERT_EQ(Bench({"--url", address_, "--api", api, "--streams", "3", "--requests", "20",
                     "--prompt", "20+-50%", "--output", "6+-50%", "--seed",
                     api == "grpc" ? "1" : "2", "--json", JsonPath()}),
              0)
        << output_;
    const nlohmann::json run = OnlyRun();
    EXPECT_EQ(run["completed"], 20) << output_;
    EXPECT_EQ(run["failed"], 0);
    EXPECT_EQ(run["prompt_tokens"], Counter("lockstep_router_prompt_tokens_total") - prompt_before);
    EXPECT_EQ(run["output_tokens"],
              Counter("lockstep_router_generation_tokens_total") - output_before);
    EXPECT_GT(run["ttft_ms"]["p50"], 0.0);
    EXPECT_GE(run["e2e_ms"]["p50"], run["ttft_ms"]["p50"]);
    EXPECT_GT(run["output_tokens_per_s"], 0.0);
  }
}

TEST_F(BenchProcessTest, AnOpenLoopSendsEveryArrivalOfItsTime) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  ASSERT_EQ(Bench({"--url", address_, "--rates", "200", "--requests", "30", "--prompt", "8",
                   "--output", "2", "--goodput", "e2e:60s", "--plots", home_.path() + "/plots",
                   "--json", JsonPath()}),
            0)
      << output_;
  const nlohmann::json run = OnlyRun();
  EXPECT_EQ(run["completed"], 30) << output_;
  EXPECT_EQ(run["good_share"], 1.0);
  std::ifstream plot(home_.path() + "/plots/run0-latency.svg");
  std::string first_word;
  plot >> first_word;
  EXPECT_EQ(first_word, "<svg");
}

TEST_F(BenchProcessTest, RefusedRequestsAreShownAndNotMeasured) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  EXPECT_EQ(Bench({"--url", address_, "--streams", "1", "--requests", "2", "--prompt", "100000",
                   "--json", JsonPath()}),
            1);
  EXPECT_THAT(output_, HasSubstr("2 failed, the first with: HTTP 400"));
  EXPECT_THAT(output_, HasSubstr("no request was answered"));
  const nlohmann::json run = OnlyRun();
  EXPECT_EQ(run["failed"], 2);
  EXPECT_EQ(run["e2e_ms"]["max"], 0.0);
}

TEST_F(BenchProcessTest, CtrlCReportsWhatWasMeasured) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  CliProcess bench({"bench", "--url", address_, "--streams", "2", "--prompt", "8", "--output", "2",
                    "--duration", "3600", "--json", JsonPath()},
                   Options());
  // Once the server has answered, something was measured.
  while (Counter("lockstep_router_generation_tokens_total") < 20) {
  }
  bench.Signal(SIGINT);
  EXPECT_EQ(bench.Wait(), 0) << bench.output();
  EXPECT_GT(OnlyRun()["completed"], 0);
}

TEST_F(BenchProcessTest, ComparesTwoResults) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::vector<std::string> load = {"--url",      address_, "--streams", "1",
                                         "--requests", "3",      "--prompt",  "8",
                                         "--output",   "2",      "--json",    JsonPath()};
  ASSERT_EQ(Bench(load), 0) << output_;
  EXPECT_EQ(Bench({"compare", JsonPath(), JsonPath()}), 0);
  EXPECT_THAT(output_, HasSubstr("| 1 streams | output_tokens_per_s |"));
  EXPECT_EQ(Bench({"compare", JsonPath()}), 2);
  EXPECT_EQ(Bench({"compare", JsonPath(), "none.json"}), 1);
  EXPECT_THAT(output_, HasSubstr("none.json"));
}

TEST_F(BenchProcessTest, AServerThatIsNotThereIsNamed) {
  EXPECT_EQ(Bench({"--url", "127.0.0.1:1", "--requests", "1"}), 1);
  EXPECT_THAT(output_, HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace lockstep::testing
