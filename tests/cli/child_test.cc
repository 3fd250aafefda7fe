#include "cli/serve/processes/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(ChildTest, CapturesWhatAProgramPrints) {
  const auto captured =
      RunAndCapture({"/bin/sh", "-c", "echo one; exit 3"}, absl::InfiniteDuration(), true);
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(captured->output, "one\n");
  EXPECT_EQ(DescribeEnd(captured->wait_status), "exit code 3");
}

TEST(ChildTest, SaysWhichSignalEndedIt) {
  const auto captured =
      RunAndCapture({"/bin/sh", "-c", "kill -9 $$"}, absl::InfiniteDuration(), true);
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(DescribeEnd(captured->wait_status), "signal 9 (Killed)");
}

TEST(ChildTest, AProgramThatHangsIsKilled) {
  EXPECT_THAT(RunAndCapture({"/bin/sh", "-c", "read x </dev/zero"}, absl::Milliseconds(50), true),
              HasError(absl::StatusCode::kDeadlineExceeded, HasSubstr("/bin/sh took longer")));
}

TEST(ChildTest, AProgramThatIsNotThereHasTheShellsExitCode) {
  const auto captured = RunAndCapture({"/no/such/program"}, absl::InfiniteDuration(), true);
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(DescribeEnd(captured->wait_status), "exit code 127");
}

}  // namespace
}  // namespace lockstep::cli
