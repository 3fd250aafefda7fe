#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class GoClientTest : public ProcessTest {};

TEST_F(GoClientTest, GosGrpcFindsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  const Outcome outcome = RunShell(LOCKSTEP_GO_CLIENT " " + router_->grpc_address());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("all right"));
  ExpectNothingHeld();
}

}  // namespace
}  // namespace lockstep::testing
