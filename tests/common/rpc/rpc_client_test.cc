#include "common/rpc/rpc_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/net/unix_socket.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/status.h"
#include "tests/common/temp_folder.h"
#include "tests/support/http2_frames.h"
#include "tests/support/test_certificates.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::RawMessage;

constexpr absl::Duration kPatience = absl::Seconds(60);

int ListenOnLoopback(uint16_t& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener, 16), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return listener;
}

// Takes connections, one after the other, and lets the test say what becomes of each.
class Listener {
 public:
  using OnConnection = std::function<void(int descriptor)>;
  explicit Listener(OnConnection on_connection) : listener_(ListenOnLoopback(port_)) {
    thread_ = NamedThread("listener", [this, on_connection = std::move(on_connection)] {
      for (;;) {
        const int accepted = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted < 0) return;
        on_connection(accepted);
      }
    });
  }
  ~Listener() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  uint16_t port_ = 0;
  const int listener_;
  NamedThread thread_;
};

// Answers each message with the same one.
class EchoServer final : private RpcHandler {
 public:
  explicit EchoServer(std::unique_ptr<RpcServerTls> tls = nullptr) : tls_(std::move(tls)) {
    thread_ = NamedThread("echo", [this] {
      while (!stopping_) poller_.Poll(Poller::Time::max());
    });
  }
  ~EchoServer() {
    EndConnections();
    poller_.Post([this] { stopping_ = true; });
    thread_.join();
  }
  Listener::OnConnection Take() {
    return [this](int descriptor) { Serve(descriptor); };
  }
  void Serve(int descriptor) {
    RpcHandler* const handler = this;
    auto connection = std::make_shared<RpcConnection>(
        descriptor, tls_ == nullptr ? nullptr : tls_->Make(),
        RpcConnection::Options{
            .role = RpcRole::kServer, .limits = {}, .timeouts = {}, .authority = {}},
        handler);
    connection->Attach(poller_);
    MutexLock lock(mutex_);
    connections_.push_back(std::move(connection));
  }
  void EndConnections() {
    MutexLock lock(mutex_);
    for (const auto& connection : connections_) connection->Close(Unavailable("the test says so"));
    connections_.clear();
  }
  int num_calls() const { return num_calls_; }

 private:
  void OnRpcEvent(RpcConnection& connection, RpcEvent event) override {
    if (event.kind != RpcEvent::Kind::kMessage) return;
    ++num_calls_;
    connection.Send(event.call, RawMessage(event.bytes));
    connection.Finish(event.call, absl::OkStatus());
  }
  void OnClosed(RpcConnection&, const absl::Status&) override {}

  const std::unique_ptr<RpcServerTls> tls_;
  Poller poller_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> num_calls_ = 0;
  Mutex mutex_;
  std::vector<std::shared_ptr<RpcConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  NamedThread thread_;
};

RpcClient::Options To(const std::string& address) {
  return {.address = address, .tls = {}, .limits = {}, .timeouts = {}};
}

std::string Ask(RpcClient& client, const std::string& question) {
  const auto answer = client.Call("/a.B/C", RawMessage(question), kPatience);
  return answer.ok() ? *answer : answer.status().ToString();
}

TEST(RpcClientTest, AsksOnOneConnectionAndMakesANewOneWhenItEnded) {
  EchoServer server;
  std::atomic<int> num_connections = 0;
  Listener listener([&](int descriptor) {
    ++num_connections;
    server.Serve(descriptor);
  });
  RpcClient client(To(listener.address()));
  const std::string large(50'000, 'x');
  for (const std::string& question : {std::string("a"), std::string(), large}) {
    EXPECT_EQ(Ask(client, question), question);
  }
  EXPECT_EQ(num_connections, 1);
  server.EndConnections();
  while (Ask(client, "b") != "b") {  // until the end has come
  }
  EXPECT_EQ(num_connections, 2);
}

TEST(RpcClientTest, AsksAtAUnixSocket) {
  const TempFolder folder;
  const std::string path = folder.path() + "/socket";
  const auto listener = UnixListener::Listen(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EchoServer server;
  NamedThread accepts("accept", [&] {
    int accepted = -1;
    while (accepted < 0) {
      accepted = accept4((*listener)->descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    server.Serve(accepted);
  });
  RpcClient client(To("unix:" + path));
  EXPECT_EQ(Ask(client, "question"), "question");
}

TEST(RpcClientTest, AsksOverTls) {
  const testing::TestAuthority authority("authority");
  const TempFolder folder;
  const std::string path = folder.path() + "/";
  testing::TestAuthority::Write(folder, "server", authority.Issue("server"));
  testing::TestAuthority::Write(folder, "client", authority.Issue("client", false));
  folder.Write("ca.pem", authority.cert_pem());
  auto tls = RpcServerTls::Load({path + "server.pem", path + "server.key", path + "ca.pem"});
  ASSERT_TRUE(tls.ok()) << tls.status();
  EchoServer server(*std::move(tls));
  Listener listener(server.Take());
  RpcClient::Options options = To(listener.address());
  options.tls = {path + "ca.pem", path + "client.pem", path + "client.key", ""};
  RpcClient client(options);
  const std::string large(60'000, 'x');
  EXPECT_EQ(Ask(client, large), large);
  EXPECT_EQ(Ask(client, "again"), "again");
  options.tls = {path + "ca.pem", "", "", ""};
  RpcClient without_certificate(options);
  EXPECT_THAT(Ask(without_certificate, "a"), HasSubstr("certificate required"));
}

// Neither holds up anybody but the caller, and the caller for no longer than it says.
TEST(RpcClientTest, ServersThatDoNotFollowTheProtocol) {
  const TempFolder folder;
  const testing::TestAuthority authority("authority");
  folder.Write("ca.pem", authority.cert_pem());
  const std::string settings = testing::Frame(Http2Frame::kSettings, 0, 0);
  const struct {
    std::string greeting;
    bool tls;
    absl::StatusCode expected;
    const char* text;
  } cases[] = {{"", false, absl::StatusCode::kDeadlineExceeded, "no answer in time"},
               {"", true, absl::StatusCode::kDeadlineExceeded, "no answer in time"},
               {settings, false, absl::StatusCode::kDeadlineExceeded, "no answer in time"},
               {"HTTP/1.1 400 Bad Request\r\n\r\n", false, absl::StatusCode::kUnavailable,
                "breaks the protocol"},
               {std::string(100, '\x16'), true, absl::StatusCode::kUnavailable, "wrong version"},
               {settings + testing::Frame(Http2Frame::kContinuation, 0, 1), false,
                absl::StatusCode::kUnavailable, "a CONTINUATION continues nothing"}};
  for (const auto& one : cases) {
    std::atomic<int> held = -1;
    Listener listener([&](int descriptor) {
      EXPECT_EQ(send(descriptor, one.greeting.data(), one.greeting.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(one.greeting.size()));
      held = descriptor;
    });
    RpcClient::Options options = To(listener.address());
    if (one.tls) options.tls.ca_path = folder.path() + "/ca.pem";
    RpcClient client(options);
    const bool waits = one.expected == absl::StatusCode::kDeadlineExceeded;
    const auto answer =
        client.Call("/a.B/C", RawMessage("question"), waits ? absl::Milliseconds(50) : kPatience);
    EXPECT_EQ(answer.status().code(), one.expected) << answer.status();
    EXPECT_THAT(Message(answer.status()), HasSubstr(one.text));
    close(held);
  }
}

TEST(RpcClientTest, CancelEndsWhatIsUnderWay) {
  std::atomic<int> held = -1;
  Listener listener([&](int descriptor) { held = descriptor; });
  RpcClient client(To(listener.address()));
  NamedThread cancels("cancels", [&] {
    while (held < 0) {
    }
    client.Cancel();
  });
  EXPECT_THAT(Ask(client, "question"), HasSubstr("CANCELLED"));
  EXPECT_THAT(Ask(client, "question"), HasSubstr("CANCELLED")) << "and what comes later";
  cancels.join();
  close(held);
}

TEST(RpcClientTest, AddressesThatAreNone) {
  for (const auto& [address, text] : std::vector<std::pair<std::string, std::string>>{
           {"no.such.name.invalid:1", "the name no.such.name.invalid is not known"},
           {"unix:/nowhere/at/all", "No such file or directory"},
           {"nowhere", "expected"}}) {
    RpcClient client(To(address));
    EXPECT_THAT(Ask(client, "question"), HasSubstr(text)) << address;
  }
}

TEST(RpcClientTest, WhoGivesNoSignOfLifeIsGivenUp) {
  std::atomic<int> held = -1;
  Listener listener([&](int descriptor) {
    const std::string settings = testing::Frame(Http2Frame::kSettings, 0, 0);
    EXPECT_GT(send(descriptor, settings.data(), settings.size(), MSG_NOSIGNAL), 0);
    held = descriptor;
  });
  RpcClient::Options options = To(listener.address());
  options.timeouts.keepalive_time = absl::Milliseconds(1);
  options.timeouts.keepalive_timeout = absl::Milliseconds(1);
  RpcClient client(options);
  EXPECT_THAT(Ask(client, "question"), HasSubstr("gives no sign of life"));
  close(held);
}

}  // namespace
}  // namespace lockstep
