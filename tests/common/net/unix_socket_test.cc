#include "common/net/unix_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

int ConnectTo(const std::string& path) {
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int result = connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  close(client);
  return result;
}

TEST(UnixAddressTest, IsAPathThatASocketCanHave) {
  EXPECT_TRUE(IsUnixAddress("unix:/run/worker"));
  EXPECT_FALSE(IsUnixAddress("127.0.0.1:1"));
  EXPECT_EQ(*ParseUnixAddress("unix:/run/worker"), "/run/worker");
  EXPECT_EQ(*ParseUnixAddress("unix:worker"), "worker");
  EXPECT_TRUE(ParseUnixAddress("unix:" + std::string(107, 'x')).ok());
  EXPECT_THAT(ParseUnixAddress("unix:" + std::string(108, 'x')).status(),
              HasError(kInvalid, HasSubstr("1 to 107 bytes of path, got 108")));
  EXPECT_THAT(ParseUnixAddress("unix:").status(), HasError(kInvalid, HasSubstr("got 0 bytes")));
  EXPECT_FALSE(ParseUnixAddress("/run/worker").ok());
}

TEST(UnixListenerTest, IsForItsUserAloneAndGoesWithItsOwner) {
  const TempFolder folder;
  const std::string path = folder.path() + "/socket";
  {
    const auto listener = UnixListener::Listen(path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat found = {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    EXPECT_EQ(ConnectTo(path), 0);
  }
  struct stat found = {};
  EXPECT_NE(stat(path.c_str(), &found), 0);
  EXPECT_TRUE(UnixListener::Listen(path).ok());
}

TEST(UnixListenerTest, ALiveSocketIsNotTakenOver) {
  const TempFolder folder;
  const std::string path = folder.path() + "/socket";
  const auto listener = UnixListener::Listen(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT(UnixListener::Listen(path).status(),
              HasError(kUnavailable, HasSubstr("another process listens at " + path)));
  EXPECT_EQ(ConnectTo(path), 0);
  // Not even by one that does not know of the lock.
  ASSERT_EQ(unlink((path + ".lock").c_str()), 0);
  EXPECT_THAT(UnixListener::Listen(path).status(),
              HasError(kUnavailable, HasSubstr("another process listens at " + path)));
  EXPECT_EQ(ConnectTo(path), 0);
}

TEST(UnixListenerTest, ADeadSocketIsReplaced) {
  const TempFolder folder;
  const std::string path = folder.path() + "/socket";
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(dead);
  ASSERT_NE(ConnectTo(path), 0);
  const auto listener = UnixListener::Listen(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(ConnectTo(path), 0);
}

TEST(UnixListenerTest, WhatIsNoSocketStays) {
  const TempFolder folder;
  folder.Write("file", "precious");
  const std::string path = folder.path() + "/file";
  EXPECT_THAT(UnixListener::Listen(path).status(),
              HasError(kUnavailable, HasSubstr("is there and is no socket")));
  struct stat found = {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_size, 8);
  EXPECT_THAT(UnixListener::Listen(folder.path() + "/no/such/folder").status(),
              HasError(kUnavailable, HasSubstr("cannot open")));
}

}  // namespace
}  // namespace lockstep
