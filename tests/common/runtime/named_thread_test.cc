#include "common/runtime/named_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace lockstep {
namespace {

TEST(NamedThreadTest, RunsTheBodyUnderItsName) {
  std::string name;
  {
    NamedThread thread("engine-0", [&name] {
      char buffer[32];
      pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
      name = buffer;
    });
  }
  EXPECT_EQ(name, "engine-0");
}

TEST(NamedThreadTest, TheDestructorAsksTheBodyToStopAndJoins) {
  std::atomic<bool> stopped = false;
  {
    NamedThread thread("loop", [&stopped](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
    });
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_TRUE(stopped);
}

TEST(NamedThreadTest, CanBeMovedAndJoined) {
  std::atomic<int> runs = 0;
  NamedThread empty;
  EXPECT_FALSE(empty.joinable());
  empty = NamedThread("once", [&runs] { ++runs; });
  empty.join();
  EXPECT_FALSE(empty.joinable());
  EXPECT_EQ(runs, 1);
}

TEST(NamedThreadDeathTest, RefusesANameThatLinuxWouldCut) {
  EXPECT_DEATH(NamedThread("sixteen-letters-", [] {}), "longer than 15 characters");
}

}  // namespace
}  // namespace lockstep
