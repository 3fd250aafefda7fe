// Other people's clients against the public port: Python's gRPC as it is, and hyper-h2 as an
// adversary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>
#include <string>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class OfficialClientsTest : public ProcessTest {
 protected:
  static Outcome RunPython(const std::string& arguments) {
    return RunShell("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" LOCKSTEP_STUBS_DIR " " LOCKSTEP_PYTHON
                    " tests/integration/" +
                    arguments);
  }
};

TEST_F(OfficialClientsTest, PythonsGrpcFindsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  const Outcome outcome = RunPython("official_clients_check.py " + router_->grpc_address());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("all right"));
  ExpectNothingHeld();
}

TEST_F(OfficialClientsTest, AttacksOverHttp2HurtNobodyElse) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0"}));
  // Both listeners are the same.
  for (const std::string& address : {router_->grpc_address(), router_->http_address()}) {
    const Outcome outcome =
        RunPython("hostile_http2_check.py " + address + " " + std::to_string(router_->pid()) + " " +
                  std::to_string(LOCKSTEP_MAX_GROWTH_MIB));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("all right"));
    std::cout << outcome.output;
  }
  EXPECT_TRUE(Generate(Request({1, 2, 3}, 5)).status.ok());
  ExpectNothingHeld();
}

}  // namespace
}  // namespace lockstep::testing
