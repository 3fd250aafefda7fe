// `lockstep chat` on a terminal and in a pipe, with a server of its own.
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "tests/cli/cli_fixture.h"
#include "tests/rigs/child_process.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kCtrlC[] = "\x03";
constexpr char kCtrlD[] = "\x04";

class ChatProcessTest : public CliTest {
 protected:
  // Until the router holds so many requests, waiting or running.
  void ExpectRequestsBecome(double wanted) {
    const Instant give_up = MonotonicNow() + absl::Seconds(30);
    double seen = -1;
    while (seen != wanted && MonotonicNow() < give_up) {
      const auto text = HttpGet(metrics_address_, "/metrics");
      ASSERT_TRUE(text.ok()) << text.status();
      seen = 0;
      for (const std::string name : {"running", "queue"}) {
        seen += MetricValue(*text, "lockstep_router_" + name + "_requests{model=\"tiny-llama\"}")
                    .value_or(0);
      }
    }
    EXPECT_EQ(seen, wanted);
  }
  std::vector<std::string> ChatArguments() const {
    return {"chat", "--url", address_, "--temperature", "0", "--max-tokens", "1"};
  }
};

TEST_F(ChatProcessTest, CtrlCEndsTheAnswerAndNotTheChat) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  CliProcess chat(ChatArguments(), Options(/*terminal=*/true));
  ASSERT_TRUE(chat.WaitFor("tiny-llama. /help lists commands"));
  ASSERT_TRUE(chat.WaitFor("> "));
  const pid_t worker = Worker();
  SendSignal(worker, SIGSTOP);  // no answer comes
  chat.Type("hello\n");
  ExpectRequestsBecome(1);
  chat.Type(kCtrlC);
  EXPECT_TRUE(chat.WaitFor("stopped"));
  kill(worker, SIGCONT);
  ExpectRequestsBecome(0);
  ASSERT_TRUE(chat.WaitFor("> "));
  chat.Type("hello again\n");
  EXPECT_TRUE(chat.WaitFor("tokens/s"));
  ASSERT_TRUE(chat.WaitFor("> "));
  chat.Type(kCtrlD);
  EXPECT_EQ(chat.Wait(), 0);
  EXPECT_THAT(chat.output(), Not(HasSubstr("\x1b[2m"))) << "NO_COLOR is set";
}

TEST_F(ChatProcessTest, CommandsLinesAndHistoryOfATerminal) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::string saved = home_.path() + "/chat.txt";
  {
    CliProcess chat(ChatArguments(), Options(/*terminal=*/true));
    ASSERT_TRUE(chat.WaitFor("> "));
    chat.Type("dropped");
    ASSERT_TRUE(chat.WaitFor("dropped"));
    chat.Type(kCtrlC);
    ASSERT_TRUE(chat.WaitFor("> "));
    chat.Type("/system Be brïef.\n");
    ASSERT_TRUE(chat.WaitFor("system message set"));
    chat.Type("one\\\ntwo\n");
    ASSERT_TRUE(chat.WaitFor("tokens/s"));
    chat.Type("/save " + saved + "\n");
    ASSERT_TRUE(chat.WaitFor("saved to"));
    chat.Type("/quit\n");
    EXPECT_EQ(chat.Wait(), 0);
  }
  EXPECT_THAT(RunShell("cat " + saved).output,
              StartsWith("[system]\nBe brïef.\n\n[user]\none\ntwo\n\n[assistant]\n"));
  const std::string history = home_.path() + "/state/lockstep/history";
  struct stat status = {};
  ASSERT_EQ(stat(history.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);

  CliProcess chat(ChatArguments(), Options(/*terminal=*/true));
  ASSERT_TRUE(chat.WaitFor("> "));
  chat.Type("\x10");  // Ctrl-P: the line before
  EXPECT_TRUE(chat.WaitFor("/quit"));
  chat.Type("\n");
  EXPECT_EQ(chat.Wait(), 0);
}

TEST_F(ChatProcessTest, APipeGetsAnswersAlone) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::string command = "printf 'one\\n/reset\\ntwo' | " LOCKSTEP_BIN_DIR "/lockstep";
  for (const std::string& argument : ChatArguments()) command += " " + argument;
  const Outcome outcome = RunShell(command + " 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_FALSE(outcome.output.empty());
  EXPECT_THAT(RunShell(command).output, AllOf(HasSubstr("lockstep chat: the answer was cut"),
                                              Not(HasSubstr("> ")), Not(HasSubstr("tokens/s"))));
}

TEST_F(ChatProcessTest, WithoutAServerItSaysHowToStartOne) {
  CliProcess chat({"chat", "--url", "127.0.0.1:1"}, Options());
  EXPECT_EQ(chat.Wait(), 1);
  EXPECT_THAT(chat.output(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("lockstep serve MODEL")));
}

}  // namespace
}  // namespace lockstep::testing
