// Benchmark and evaluation programs of other people against the programs; see
// bench_clients_check.py.
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

class BenchClientsTest : public ProcessTest {
 protected:
  void ExpectPasses(const std::string& test) {
    ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0"}));
    const Outcome outcome = RunShell("python3 tests/clients/bench_clients_check.py " +
                                     router_->http_address() + " BenchClientsCheck." + test);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    ExpectNothingHeld();
  }
};

TEST_F(BenchClientsTest, Guidellm) { ExpectPasses("test_guidellm"); }
TEST_F(BenchClientsTest, Aiperf) { ExpectPasses("test_aiperf"); }
TEST_F(BenchClientsTest, LmEvalWithLocalAndRemoteTokenizer) { ExpectPasses("test_lm_eval"); }
TEST_F(BenchClientsTest, VllmBenchServe) { ExpectPasses("test_vllm_bench_serve"); }

}  // namespace
}  // namespace lockstep::testing
