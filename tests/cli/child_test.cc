#include "cli/serve/processes/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

TEST(ChildTest, CapturesWhatAProgramPrints) {
  const auto captured = RunAndCapture({"/bin/sh", "-c", "echo one; exit 3"}, {.quiet = true});
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(captured->output, "one\n");
  EXPECT_EQ(DescribeEnd(captured->wait_status), "exit code 3");
}

TEST(ChildTest, SaysWhichSignalEndedIt) {
  const auto captured = RunAndCapture({"/bin/sh", "-c", "kill -9 $$"}, {.quiet = true});
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(DescribeEnd(captured->wait_status), "signal 9 (Killed)");
}

TEST(ChildTest, AProgramThatHangsIsKilled) {
  EXPECT_THAT(RunAndCapture({"/bin/sh", "-c", "read x </dev/zero"},
                            {.timeout = absl::Milliseconds(50), .quiet = true}),
              HasError(absl::StatusCode::kDeadlineExceeded, HasSubstr("/bin/sh took longer")));
}

TEST(ChildTest, SoIsAProgramThatClosesItsOutputAndLivesOn) {
  EXPECT_THAT(RunAndCapture({"/bin/sh", "-c", "exec >&- 2>&-; read x </dev/zero"},
                            {.timeout = absl::Milliseconds(50), .with_stderr = true}),
              HasError(absl::StatusCode::kDeadlineExceeded, HasSubstr("/bin/sh took longer")));
}

TEST(ChildTest, SoIsAProgramThatPrintsWithoutEnd) {
  EXPECT_THAT(RunAndCapture({"/bin/cat", "/dev/zero"}, {.timeout = absl::Milliseconds(50)}),
              HasError(absl::StatusCode::kDeadlineExceeded, HasSubstr("/bin/cat took longer")));
}

TEST(ChildTest, KeepsTheEndOfALongOutput) {
  const auto captured =
      RunAndCapture({"/bin/sh", "-c", "head --bytes=200000 /dev/zero; echo; echo last"}, {});
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(captured->output.size(), kMaxCapturedBytes);
  EXPECT_TRUE(captured->output.ends_with("\nlast\n"));
}

TEST(ChildTest, AProgramGetsNoKeysOfTheUserUnlessItIsToHaveThem) {
  setenv("HF_TOKEN", "secret", 1);
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  const std::vector<std::string> print = {"/bin/sh", "-c", "echo $HF_TOKEN/$CUDA_VISIBLE_DEVICES"};
  const auto some = RunAndCapture(print, {});
  const auto all = RunAndCapture(print, {.whole_environment = true});
  unsetenv("HF_TOKEN");
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_THAT(some, IsOk());
  EXPECT_EQ(some->output, "/3\n");
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->output, "secret/3\n");
}

TEST(ChildTest, KnowsWhatOurProgramsNeed) {
  for (const char* const name : {"PATH", "HOME", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES",
                                 "NCCL_DEBUG", "OMP_NUM_THREADS", "ASAN_OPTIONS"}) {
    EXPECT_TRUE(KeepsVariable(name)) << name;
  }
  for (const char* const name :
       {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK", "GITHUB_TOKEN", "https_proxy", "", "PATHS", "HOMEBREW"}) {
    EXPECT_FALSE(KeepsVariable(name)) << name;
  }
}

TEST(ChildTest, AProgramThatIsNotThereHasTheShellsExitCode) {
  const auto captured = RunAndCapture({"/no/such/program"}, {.quiet = true});
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ(DescribeEnd(captured->wait_status), "exit code 127");
}

}  // namespace
}  // namespace lockstep::cli
