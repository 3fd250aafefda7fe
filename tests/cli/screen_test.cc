#include "cli/serve/processes/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/common/private_folder.h"
#include "cli/serve/processes/log_follower.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Served Example() {
  return {.model = "models/tiny",
          .where = "on the CPU",
          .address = {.host = "127.0.0.1", .port = 8000},
          .admin_address = "127.0.0.1:9090",
          .log_folder = "/logs"};
}

TEST(ScreenTest, SaysHowToUseTheServer) {
  EXPECT_THAT(StartScreen(Example(), {}),
              AllOf(HasSubstr("models/tiny on the CPU"), HasSubstr("http://127.0.0.1:8000/v1\n"),
                    HasSubstr("http://127.0.0.1:8000/metrics\n"), Not(HasSubstr("9090")),
                    HasSubstr("/logs"), HasSubstr("lockstep chat\n"), HasSubstr("lockstep top\n"),
                    HasSubstr("curl http://127.0.0.1:8000/v1/completions"),
                    HasSubstr("Ctrl-C stops"), Not(HasSubstr("\x1b"))));
}

TEST(ScreenTest, NamesTheAddressWhereItIsNotTheUsualOne) {
  Served served = Example();
  served.address = {.host = "0.0.0.0", .port = 8001};
  EXPECT_THAT(StartScreen(served, {}), AllOf(HasSubstr("lockstep chat --url 127.0.0.1:8001\n"),
                                             HasSubstr("http://127.0.0.1:8001/v1\n")));
  served.tls = true;
  EXPECT_THAT(StartScreen(served, {}),
              AllOf(HasSubstr("lockstep chat --url https://127.0.0.1:8001 --tls-ca FILE\n"),
                    HasSubstr("curl --cacert FILE https://127.0.0.1:8001/"),
                    HasSubstr("lockstep top --url 127.0.0.1:9090\n")));
}

TEST(ScreenTest, WithKeysTheCommandsShowOne) {
  Served served = Example();
  served.keys = true;
  EXPECT_THAT(StartScreen(served, {}),
              AllOf(HasSubstr("lockstep chat --api-key @FILE\n"),
                    HasSubstr("http://127.0.0.1:9090/metrics\n"),
                    HasSubstr("lockstep top --url 127.0.0.1:9090\n"),
                    HasSubstr(" -H 'Authorization: Bearer KEY' -d '{\"prompt\"")));
}

TEST(ScreenTest, ProgressIsThatOfTheSlowestWorker) {
  EXPECT_EQ(ProgressText({LoadingProgress{"weights", 70}, LoadingProgress{"weights", 30}}),
            "loading weights: 30 %");
  EXPECT_EQ(ProgressText({LoadingProgress{"weights", 70}, std::nullopt}), "starting");
}

TEST(ScreenTest, ATakenPortComesWithACommandThatWorks) {
  EXPECT_EQ(PortTakenText("a b", 8000, 8001),
            "port 8000 is taken; 8001 is free: lockstep serve 'a b' --port 8001");
  EXPECT_THAT(PortTakenText("m", 8000, 0), HasSubstr("port 8000 is taken"));
  EXPECT_EQ(ShellQuoted("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuoted("~/m"), "'~/m'");
}

TEST(TerminalTest, PaintsOnlyWhereItIsOn) {
  EXPECT_EQ(Paint{}.Bold("a"), "a");
  EXPECT_EQ(Paint{.on = true}.Bold("a"), "\x1b[1ma\x1b[0m");
}

TEST(LogFollowerTest, FindsTheLatestProgress) {
  EXPECT_EQ(FindProgress("x\n[i] loading weights: 10 %\n[i] loading kv-cache: 0 %\ny\n"),
            (LoadingProgress{"kv-cache", 0}));
  EXPECT_EQ(FindProgress("loading weights: 20 %\nloading something else\n"),
            (LoadingProgress{"weights", 20}));
  EXPECT_EQ(FindProgress("loading weights: many %\n"), std::nullopt);
  EXPECT_EQ(FindProgress(""), std::nullopt);
}

TEST(LogFollowerTest, ReadsWhatIsNewAndComplete) {
  const TempFolder folder;
  const std::string path = folder.Write("log", "old\n");
  LogFollower follower(path);
  follower.SkipToEnd();
  EXPECT_EQ(follower.ReadNew(), "");
  folder.Write("log", "old\none\ntw");
  EXPECT_EQ(follower.ReadNew(), "one\n");
  folder.Write("log", "old\none\ntwo\n");
  EXPECT_EQ(follower.ReadNew(), "two\n");
}

TEST(LogFollowerTest, LastLinesOfALog) {
  const TempFolder folder;
  LogFollower follower(folder.Write("log", "0\n"));
  folder.Write("log", "0\n1\n2\n3\n");
  EXPECT_EQ(follower.LastLines(2), "2\n3");
  EXPECT_EQ(follower.LastLines(9), "0\n1\n2\n3");
  follower.SkipToEnd();
  EXPECT_EQ(follower.LastLines(2), "");
  folder.Write("log", "0\n1\n2\n3\n4\n");
  EXPECT_EQ(follower.LastLines(2), "4");
  EXPECT_EQ(LogFollower(folder.path() + "/none").LastLines(2), "");
}

TEST(PrivateFolderTest, NewFoldersAreThisUsersOnly) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a/b/c";
  const mode_t before = umask(0);
  EXPECT_THAT(MakePrivateFolders(path), IsOk());
  umask(before);
  struct stat status = {};
  for (const char* const part : {"/a", "/a/b", "/a/b/c"}) {
    ASSERT_EQ(stat((folder.path() + part).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u) << part;
  }
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_THAT(MakePrivateFolders(path), IsOk());
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0755u) << "it was there";
  const std::string file = folder.Write("file", "");
  EXPECT_THAT(MakePrivateFolders(file + "/x"),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("Not a directory")));
}

}  // namespace
}  // namespace lockstep::cli
