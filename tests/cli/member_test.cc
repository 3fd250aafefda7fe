#include "cli/serve/processes/member.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "common/runtime/clock.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

// A program that counts SIGTERM, tells of each in the pipe "told", and ends with the count when
// something comes through the pipe "go".
constexpr char kCounts[] =
    "trap 'n=$((n+1)); echo term > $0/told' TERM; n=0; echo LISTENING grpc=a admin=b; "
    "while ! read word < $0/go; do :; done; exit $n";

class MemberTest : public ::testing::Test {
 protected:
  MemberTest() {
    for (const char* const name : {"/told", "/go"}) {
      EXPECT_EQ(mkfifo((folder_.path() + name).c_str(), 0600), 0);
    }
  }
  void Start(const std::string& script) {
    member_.emplace(MemberSpec{.name = "worker 0",
                               .arguments = {"/bin/sh", "-c", script, folder_.path()},
                               .log_path = folder_.path() + "/log"},
                    RestartLimits{});
    ASSERT_THAT(member_->Start(clock_.Now()), IsOk());
  }
  void WaitUntilListening() {
    do {
      pollfd readable = {member_->stdout_fd(), POLLIN, 0};
      poll(&readable, 1, -1);
    } while (!member_->ReadOutput());
  }
  Member::Ended WaitForEnd() {
    std::optional<Member::Ended> end;
    while (!(end = member_->Reap(clock_.Now()))) {
      pollfd closed = {member_->stdout_fd(), POLLIN, 0};
      poll(&closed, 1, 1);
    }
    return *end;
  }

  const TempFolder folder_;
  FakeClock clock_;
  std::optional<Member> member_;
};

TEST_F(MemberTest, ASecondEndSendsNoSecondSignal) {
  Start(kCounts);
  WaitUntilListening();
  member_->End();
  std::string word;
  std::ifstream(folder_.path() + "/told") >> word;
  EXPECT_EQ(word, "term");
  // The next one would wait here for a reader.
  const int told = open((folder_.path() + "/told").c_str(), O_RDWR | O_CLOEXEC);
  member_->End();
  std::ofstream(folder_.path() + "/go") << "go\n";
  EXPECT_EQ(WEXITSTATUS(WaitForEnd().wait_status), 1);
  close(told);
}

TEST_F(MemberTest, AnEndThatWasAskedForDoesNotCount) {
  Start("exit 3");
  EXPECT_EQ(WaitForEnd().verdict.wait, absl::Seconds(1));
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(member_->Start(clock_.Now()), IsOk());
    member_->End();  // it does not listen, so this kills it
    const Member::Ended end = WaitForEnd();
    EXPECT_FALSE(end.verdict.gives_up);
    EXPECT_EQ(end.verdict.wait, absl::ZeroDuration());
    EXPECT_FALSE(end.listened);
  }
  ASSERT_THAT(member_->Start(clock_.Now()), IsOk());
  EXPECT_EQ(WaitForEnd().verdict.wait, absl::Seconds(2));
}

TEST_F(MemberTest, ReadsTheLineOfAServer) {
  const std::string line = "LISTENING grpc=unix:/a/b.sock admin=127.0.0.1:7 http=127.0.0.1:8";
  EXPECT_EQ(ListeningField(line, "grpc"), "unix:/a/b.sock");
  EXPECT_EQ(ListeningField(line, "admin"), "127.0.0.1:7");
  EXPECT_EQ(ListeningField(line, "other"), "");
  EXPECT_EQ(ListeningField("noise grpc=1 admin=2", "grpc"), "");
}

TEST_F(MemberTest, ALogThatIsALinkIsNotWritten) {
  const std::string target = folder_.Write("precious", "mine");
  const std::string log = folder_.path() + "/worker-0.log";
  std::filesystem::create_symlink(target, log);
  Member member({.name = "worker 0", .arguments = {"/bin/echo", "text"}, .log_path = log}, {});
  EXPECT_THAT(member.Start(clock_.Now()),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("a symbolic link")));
  EXPECT_EQ(std::filesystem::file_size(target), 4u);
}

}  // namespace
}  // namespace lockstep::cli
