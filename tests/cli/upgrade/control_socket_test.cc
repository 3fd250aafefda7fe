#include "cli/serve/upgrade/control_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kNone[] = "";  // no refusal

// A client, which never waits: a unix socket takes and gives everything at once.
class Client {
 public:
  explicit Client(const std::string& path) : socket_(ConnectToControl(path).value_or(-1)) {
    EXPECT_GE(socket_, 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(socket_); }

  // Returns how many bytes were taken.
  ssize_t Send(std::string_view text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // What can be read now.
  std::string Read() {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t count = recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT);
      closed_ = count == 0 || (count < 0 && errno != EAGAIN);
      if (count <= 0) return text;
      text.append(buffer, static_cast<size_t>(count));
    }
  }
  bool closed() const { return closed_; }  // seen by Read

 private:
  const int socket_;
  bool closed_ = false;
};

class ControlSocketTest : public ::testing::Test {
 protected:
  ControlSocketTest() : control_(Listen("control.sock")) {
    EXPECT_THAT(control_->Link(link_), IsOk());
  }

  std::unique_ptr<ControlSocket> Listen(const std::string& name) const {
    auto control = ControlSocket::Listen(folder_.path() + "/" + name);
    EXPECT_THAT(control.status(), IsOk());
    return *std::move(control);
  }

  const TempFolder folder_;
  const std::string link_ = folder_.path() + "/serve-1.control";
  std::unique_ptr<ControlSocket> control_;
};

TEST_F(ControlSocketTest, AnAnswerHasLinesAndALastOne) {
  EXPECT_FALSE(control_->Accept(kNone));
  Client client(link_);
  EXPECT_TRUE(control_->Accept(kNone));
  EXPECT_FALSE(control_->Accept("busy"));  // once
  control_->Say("one");
  EXPECT_EQ(client.Read(), "progress one\n");
  EXPECT_FALSE(client.closed());
  control_->End(kDone, "two");
  EXPECT_EQ(client.Read(), "done two\n");
  EXPECT_TRUE(client.closed());
  control_->Say("nobody reads this");
}

TEST_F(ControlSocketTest, WhatAClientSendsIsNotRead) {
  Client client(link_);
  EXPECT_TRUE(control_->Accept(kNone));
  const std::string megabyte(1 << 20, 'x');
  EXPECT_LT(client.Send(megabyte), 1 << 20);
  EXPECT_FALSE(control_->Accept("busy"));
  control_->End(kDone, "two");
  EXPECT_EQ(client.Read(), "done two\n");
  EXPECT_TRUE(client.closed());
}

TEST_F(ControlSocketTest, OneClientIsServedAndOthersAreRefusedMeanwhile) {
  Client first(link_);
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 100; ++i) others.push_back(std::make_unique<Client>(link_));
  EXPECT_TRUE(control_->Accept(kNone));
  EXPECT_FALSE(control_->Accept("another upgrade runs"));
  for (const auto& other : others) {
    EXPECT_EQ(other->Read(), "failed another upgrade runs\n");
    EXPECT_TRUE(other->closed());
  }
  control_->Say("one");
  EXPECT_EQ(first.Read(), "progress one\n");
}

TEST_F(ControlSocketTest, AClientThatIsGoneIsForgotten) {
  std::make_unique<Client>(link_).reset();
  EXPECT_TRUE(control_->Accept(kNone));
  control_->Say("nobody reads this");
  control_->End(kDone, "nor this");
  Client client(link_);
  EXPECT_TRUE(control_->Accept(kNone));
}

TEST_F(ControlSocketTest, AClientThatReadsTooLittleIsGivenUp) {
  Client slow(link_);
  EXPECT_TRUE(control_->Accept(kNone));
  constexpr size_t kNumLines = 4000;
  for (size_t i = 0; i < kNumLines; ++i) control_->Say(std::string(1000, 'x'));
  EXPECT_LT(slow.Read().size(), kNumLines * 1000);
  EXPECT_TRUE(slow.closed());
}

TEST_F(ControlSocketTest, WithoutFreeDescriptorsNewClientsWait) {
  Client client(link_);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next_descriptor = dup(STDERR_FILENO);
  close(next_descriptor);
  rlimit none_left = before;
  none_left.rlim_cur = static_cast<rlim_t>(next_descriptor);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  const bool asked = control_->Accept(kNone);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(asked);
  EXPECT_TRUE(control_->exhausted());
  EXPECT_TRUE(control_->Accept(kNone));
  EXPECT_FALSE(control_->exhausted());
}

TEST_F(ControlSocketTest, TheLinkGoesWithTheSocket) {
  EXPECT_EQ(fs::read_symlink(link_), folder_.path() + "/control.sock");
  control_.reset();
  EXPECT_FALSE(fs::exists(fs::symlink_status(link_)));
  EXPECT_FALSE(fs::exists(folder_.path() + "/control.sock"));
  EXPECT_THAT(ConnectToControl(link_).status(),
              HasError(absl::StatusCode::kNotFound, HasSubstr(link_)));
  const std::string nowhere = folder_.path() + "/nowhere";
  fs::create_symlink("/none/such.sock", nowhere);
  EXPECT_THAT(ConnectToControl(nowhere).status(),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("/none/such.sock")));
}

TEST_F(ControlSocketTest, TheLinkOfAnotherServerStays) {
  const std::unique_ptr<ControlSocket> other = Listen("other.sock");
  ASSERT_THAT(other->Link(link_), IsOk());
  control_.reset();
  Client client(link_);
  EXPECT_TRUE(other->Accept(kNone));
}

TEST_F(ControlSocketTest, AFileOrALinkInItsPlaceIsReplacedAndNotFollowed) {
  const std::string file = folder_.Write("file", "mine");
  const std::string link = folder_.path() + "/link";
  fs::create_symlink(file, link);
  EXPECT_THAT(control_->Link(link), IsOk());
  EXPECT_EQ(fs::file_size(file), 4u);
  EXPECT_EQ(fs::read_symlink(link), folder_.path() + "/control.sock");
  EXPECT_THAT(control_->Link(file), IsOk());
  EXPECT_EQ(fs::read_symlink(file), folder_.path() + "/control.sock");
}

TEST_F(ControlSocketTest, APlaceThatDoesNotWorkIsNamed) {
  const std::string none = folder_.path() + "/none/control.sock";
  EXPECT_THAT(ControlSocket::Listen(none).status(),
              HasError(absl::StatusCode::kUnavailable, HasSubstr(none)));
  EXPECT_THAT(control_->Link(none), HasError(absl::StatusCode::kUnavailable, HasSubstr(none)));
  fs::create_directory(folder_.path() + "/folder");
  const std::string folder = folder_.path() + "/folder";
  EXPECT_THAT(control_->Link(folder), HasError(absl::StatusCode::kUnavailable, HasSubstr(folder)));
  const std::string file = folder_.Write("file", "text");
  EXPECT_THAT(ConnectToControl(file).status(),
              HasError(absl::StatusCode::kNotFound, HasSubstr(file)));
  const std::string link = folder_.path() + "/long";
  fs::create_symlink(std::string(300, 'x'), link);
  EXPECT_THAT(ConnectToControl(link).status(),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("too long")));
}

}  // namespace
}  // namespace lockstep::cli
