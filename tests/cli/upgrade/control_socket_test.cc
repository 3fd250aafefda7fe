#include "cli/serve/upgrade/control_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  ControlSocketTest() {
    auto control = ControlSocket::Listen(socket_path_, file_path_);
    EXPECT_THAT(control.status(), IsOk());
    control_.emplace(*std::move(control));
  }

  const TempFolder folder_;
  const std::string socket_path_ = folder_.path() + "/control.sock";
  const std::string file_path_ = folder_.path() + "/serve.control";
  std::optional<ControlSocket> control_;
};

TEST_F(ControlSocketTest, AnAnswerHasLinesAndALastOne) {
  Client client(socket_path_);
  EXPECT_THAT(control_->Work(), IsEmpty());
  client.Send("upgr");
  EXPECT_THAT(control_->Work(), IsEmpty());
  client.Send("ade\n");
  const std::vector<uint64_t> asking = control_->Work();
  ASSERT_EQ(asking.size(), 1u);
  EXPECT_THAT(control_->Work(), IsEmpty());  // once
  control_->Say(asking[0], "one");
  EXPECT_EQ(client.Read(), "progress one\n");
  EXPECT_FALSE(client.closed());
  control_->End(asking[0], kDone, "two");
  EXPECT_EQ(client.Read(), "done two\n");
  EXPECT_TRUE(client.closed());
  control_->Say(asking[0], "nobody reads this");
}

TEST_F(ControlSocketTest, GarbageGetsAnErrorAndIsNotKept) {
  using std::string_literals::operator""s;
  for (const std::string& garbage :
       {"\0\xff\x1b[2J\n"s, "\n"s, "upgrade now\n"s, "upgrade\nupgrade\n"s, std::string(64, 'u'),
        std::string(1 << 20, 'x')}) {
    Client client(socket_path_);
    client.Send(garbage);
    EXPECT_THAT(control_->Work(), IsEmpty());
    EXPECT_EQ(client.Read(), "failed there is no such command\n");
    EXPECT_TRUE(client.closed());
    EXPECT_LT(client.Send("more"), 0);
  }
}

TEST_F(ControlSocketTest, AClientThatGoesOnSendingIsCutOff) {
  Client client(socket_path_);
  client.Send("upgrade\n");
  const std::vector<uint64_t> asking = control_->Work();
  ASSERT_EQ(asking.size(), 1u);
  client.Send(std::string(1 << 20, 'x'));
  EXPECT_THAT(control_->Work(), IsEmpty());
  client.Read();
  EXPECT_TRUE(client.closed());
  control_->End(asking[0], kDone, "nobody reads this");
}

TEST_F(ControlSocketTest, SilentClientsMakeRoomForOthers) {
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<Client>(socket_path_));
    EXPECT_THAT(control_->Work(), IsEmpty());
  }
  std::vector<pollfd> waiting;
  control_->AddTo(waiting);
  EXPECT_LE(waiting.size(), 10u);
  Client client(socket_path_);
  client.Send("upgrade\n");
  EXPECT_EQ(control_->Work().size(), 1u);
}

TEST_F(ControlSocketTest, AClientThatReadsTooLittleIsGivenUp) {
  Client slow(socket_path_);
  slow.Send("upgrade\n");
  const std::vector<uint64_t> asking = control_->Work();
  ASSERT_EQ(asking.size(), 1u);
  constexpr size_t kNumLines = 4000;
  for (size_t i = 0; i < kNumLines; ++i) {
    control_->Say(asking[0], std::string(1000, 'x'));
    EXPECT_THAT(control_->Work(), IsEmpty());
  }
  EXPECT_LT(slow.Read().size(), kNumLines * 1000);
  EXPECT_TRUE(slow.closed());
}

TEST_F(ControlSocketTest, TheFileIsPrivateAndGoesWithTheSocket) {
  struct stat status = {};
  ASSERT_EQ(stat(file_path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_EQ(ReadControlFile(file_path_, geteuid()).value(), socket_path_);
  control_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THAT(ReadControlFile(file_path_, geteuid()).status(),
              HasError(absl::StatusCode::kNotFound, HasSubstr(file_path_)));
  EXPECT_THAT(ConnectToControl(socket_path_).status(),
              HasError(absl::StatusCode::kUnavailable, HasSubstr(socket_path_)));
}

TEST_F(ControlSocketTest, ALinkInItsPlaceIsReplacedAndNotFollowed) {
  const std::string other = folder_.Write("other", "mine");
  std::filesystem::create_symlink(other, folder_.path() + "/link");
  ASSERT_THAT(
      ControlSocket::Listen(folder_.path() + "/second.sock", folder_.path() + "/link").status(),
      IsOk());
  EXPECT_EQ(std::filesystem::file_size(other), 4u);
}

TEST_F(ControlSocketTest, FilesThatOthersCouldHaveWrittenAreRefused) {
  constexpr auto kWrong = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(ReadControlFile(file_path_, geteuid() + 1).status(),
              HasError(kWrong, HasSubstr("another user's")));
  chmod(file_path_.c_str(), 0620);
  EXPECT_THAT(ReadControlFile(file_path_, geteuid()).status(),
              HasError(kWrong, HasSubstr("mode 0600")));
  EXPECT_THAT(ReadControlFile(folder_.path(), geteuid()).status(),
              HasError(kWrong, HasSubstr("mode 0600")));
  const std::string link = folder_.path() + "/link";
  std::filesystem::create_symlink(file_path_, link);
  EXPECT_THAT(ReadControlFile(link, geteuid()).status(), HasError(kWrong, HasSubstr(link)));
  const std::string large = folder_.Write("large", std::string(1 << 20, 'x'));
  chmod(large.c_str(), 0600);
  EXPECT_THAT(ReadControlFile(large, geteuid()).status(),
              HasError(kWrong, HasSubstr("path of a socket")));
}

TEST_F(ControlSocketTest, APlaceThatDoesNotWorkIsNamed) {
  for (const std::string& wrong : {folder_.path() + "/none/control.sock", std::string(300, 'x')}) {
    EXPECT_THAT(ControlSocket::Listen(wrong, file_path_).status(),
                HasError(absl::StatusCode::kUnavailable, HasSubstr(wrong)));
  }
}

}  // namespace
}  // namespace lockstep::cli
