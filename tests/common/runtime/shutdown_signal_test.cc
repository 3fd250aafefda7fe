#include "common/runtime/shutdown_signal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/runtime/logging.h"

namespace lockstep {
namespace {

TEST(ShutdownSignalTest, BothSignalsAreReceivedAndStayReceived) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const ShutdownSignal shutdown;
    EXPECT_FALSE(shutdown.received());
    EXPECT_FALSE(shutdown.WaitFor(absl::Milliseconds(1)));
    ASSERT_EQ(raise(signal), 0);
    EXPECT_TRUE(shutdown.received());
    EXPECT_TRUE(shutdown.WaitFor(absl::InfiniteDuration()));
    shutdown.Wait();
    EXPECT_TRUE(shutdown.received());
  }
}

TEST(ShutdownSignalTest, ASignalWakesThreadsThatWait) {
  const ShutdownSignal shutdown;
  std::thread first([&] { shutdown.Wait(); });
  std::thread second([&] { EXPECT_TRUE(shutdown.WaitFor(absl::Hours(10000))); });
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  first.join();
  second.join();
}

TEST(ShutdownSignalTest, TheDescriptorBecomesReadable) {
  const ShutdownSignal shutdown;
  pollfd waiting = {shutdown.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  ASSERT_EQ(raise(SIGTERM), 0);
  EXPECT_EQ(poll(&waiting, 1, 0), 1);
}

TEST(ShutdownSignalTest, TheDestructorRestoresTheFormerHandlers) {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction original;
  ASSERT_EQ(sigaction(SIGTERM, &ignore, &original), 0);
  {
    const ShutdownSignal shutdown;
  }
  struct sigaction after;
  ASSERT_EQ(sigaction(SIGTERM, &original, &after), 0);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(ShutdownSignalDeathTest, TheSecondSignalEndsTheProcessWithCodeZero) {
  EXPECT_EXIT(
      {
        const ShutdownSignal shutdown;
        raise(SIGTERM);
        raise(SIGINT);
        _exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ShutdownSignalDeathTest, OnlyOneMayExist) {
  EXPECT_DEATH(
      {
        const ShutdownSignal first;
        const ShutdownSignal second;
      },
      "a second ShutdownSignal");
}

TEST(IgnoreBrokenPipesDeathTest, ALogThatNobodyReadsEndsNothing) {
  EXPECT_EXIT(
      {
        int pipe_fds[2];
        if (pipe(pipe_fds) != 0 || signal(SIGPIPE, SIG_DFL) == SIG_ERR) _exit(1);
        IgnoreBrokenPipes();
        dup2(pipe_fds[1], STDERR_FILENO);
        close(pipe_fds[0]);
        if (!InitLogging("info").ok()) _exit(2);
        for (int i = 0; i < 1000; ++i) spdlog::error("nobody reads this");
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace lockstep
