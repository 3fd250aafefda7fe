#include "common/net/admin_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A blocking TCP connection to loopback. A server that hangs fails the test by its time limit.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
        << errno;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(fd_); }

  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server may close early; what it answered tells the rest
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void FinishSending() { shutdown(fd_, SHUT_WR); }

  // Up to the server's closing of the connection.
  std::string ReadToEnd() {
    while (ReadSome()) {
    }
    return std::exchange(received_, {});
  }

  // One reply of a connection that stays open.
  std::string ReadReply() {
    size_t header_end;
    while ((header_end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadSome()) return "closed: " + received_;
    }
    const size_t length_at = received_.find("Content-Length: ");
    if (length_at == std::string::npos) return "no length: " + received_;
    const size_t total = header_end + 4 + std::stoul(received_.substr(length_at + 16));
    while (received_.size() < total) {
      if (!ReadSome()) return "closed: " + received_;
    }
    std::string reply = received_.substr(0, total);
    received_.erase(0, total);
    return reply;
  }

 private:
  bool ReadSome() {
    char buffer[4096];
    const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
    if (count > 0) received_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  const int fd_;
  std::string received_;
};

class AdminServerTest : public ::testing::Test {
 protected:
  void Start(AdminServerLimits limits = {}, const std::string& address = "127.0.0.1:0") {
    absl::StatusOr<std::unique_ptr<AdminServer>> server = AdminServer::Start(
        address,
        {.metrics = registry_,
         .health =
             [this] {
               return healthy_ ? HealthReport{true, "serving"}
                               : HealthReport{false, "worker 0 is lost\nsince 5 s"};
             }},
        limits);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    ASSERT_NE(server_->port(), 0);
  }

  std::string Ask(std::string_view request) {
    Client client(server_->port());
    client.Send(request);
    client.FinishSending();
    return client.ReadToEnd();
  }

  std::string Get(std::string_view target) {
    return Ask(
        fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target));
  }

  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::atomic<bool> healthy_ = true;
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, SaysWhatIsStuckWhereItIsTold) {
  bool is_stuck = false;
  absl::StatusOr<std::unique_ptr<AdminServer>> server = AdminServer::Start(
      "127.0.0.1:0", {.metrics = registry_,
                      .health = [] { return HealthReport{false, "no worker"}; },
                      .liveness =
                          [&is_stuck] {
                            return is_stuck ? HealthReport{false, "http-0 is stuck"}
                                            : HealthReport{true, "alive"};
                          }});
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  EXPECT_THAT(Get("/livez"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("alive\n")));
  is_stuck = true;
  EXPECT_THAT(Get("/livez"), AllOf(StartsWith("HTTP/1.1 503"), EndsWith("http-0 is stuck\n")));
}

TEST_F(AdminServerTest, ServesAStatusWhereThereIsOne) {
  Start();
  EXPECT_THAT(Get("/status.json"), StartsWith("HTTP/1.1 404"));
  absl::StatusOr<std::unique_ptr<AdminServer>> server =
      AdminServer::Start("127.0.0.1:0", {.metrics = registry_,
                                         .health = [] { return HealthReport{true, "serving"}; },
                                         .status = [] { return std::string(R"({"now_ms":1})"); }});
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  EXPECT_THAT(Get("/status.json?x"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("Content-Type: application/json\r\n"), EndsWith(R"({"now_ms":1})")));
  EXPECT_THAT(Get("/nothing"), HasSubstr("/status.json"));
}

TEST_F(AdminServerTest, ServesMetricsInPrometheusFormat) {
  Start();
  prometheus::Counter& counter = prometheus::BuildCounter()
                                     .Name("requests_total")
                                     .Help("Requests.")
                                     .Register(*registry_)
                                     .Add({{"code", "OK"}});
  counter.Increment(3);
  EXPECT_THAT(Get("/metrics"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                                     HasSubstr("Content-Type: text/plain; version=0.0.4"),
                                     HasSubstr("# TYPE requests_total counter\n"),
                                     HasSubstr("requests_total{code=\"OK\"} 3\n")));
  counter.Increment();
  EXPECT_THAT(Get("/metrics?x=1"), HasSubstr("requests_total{code=\"OK\"} 4\n"));
}

TEST_F(AdminServerTest, ReportsHealthOnOneLine) {
  Start();
  EXPECT_THAT(Get("/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nserving\n")));
  healthy_ = false;
  EXPECT_THAT(Get("/healthz"), AllOf(StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                                     EndsWith("\r\n\r\nworker 0 is lost\\nsince 5 s\n")));
}

TEST_F(AdminServerTest, IsAliveWhetherHealthyOrNot) {
  Start();
  for (const bool healthy : {true, false}) {
    healthy_ = healthy;
    EXPECT_THAT(Get("/livez"),
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nalive\n")));
  }
}

TEST_F(AdminServerTest, RefusesEverythingElse) {
  Start();
  const std::pair<std::string, const char*> cases[] = {
      {"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
      {"GET /metrics/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
      {"POST /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
      {"PUT /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 405 "},
      {"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: "
       "close\r\n\r\n",
       "HTTP/1.1 405 "},
      {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
       "HTTP/1.1 413 "},
      {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
       "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
       "HTTP/1.1 413 "},
      {"GET /metrics HTTP/1.1\r\nX: " + std::string(10000, 'y') + "\r\n\r\n", "HTTP/1.1 431 "},
      {"hello\r\n\r\n", "HTTP/1.1 400 "},
      {"GET /metrics HTTP/9.9\r\n\r\n", "HTTP/1.1 400 "},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15),
       "HTTP/1.1 400 "}};  // TLS
  for (const auto& [request, expected] : cases) {
    EXPECT_THAT(Ask(request), StartsWith(expected)) << request.substr(0, 60);
  }
  EXPECT_THAT(Ask(cases[4].first), HasSubstr("Allow: GET, HEAD\r\n"));
}

// RFC 9110, 6.6.1 and 9.3.2.
TEST_F(AdminServerTest, AnswersHaveTheirDateAndHeadHasNoContent) {
  Start();
  for (const std::string path : {"/healthz", "/livez", "/metrics", "/nothing"}) {
    const std::string get = Get(path);
    EXPECT_THAT(get, ContainsRegex("\r\nDate: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} "
                                   "[0-9]{2}:[0-9]{2}:[0-9]{2} GMT\r\n"));
    if (path == "/nothing") continue;
    const std::string head =
        Ask("HEAD " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: "),
                            EndsWith("\r\n\r\n")));
  }
}

TEST_F(AdminServerTest, AConnectionServesSeveralRequests) {
  Start();
  Client client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.ReadReply(), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  client.Send(
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: "
      "localhost\r\nConnection: "
      "close\r\n\r\n");
  EXPECT_THAT(client.ReadReply(), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 404 "));
}

TEST_F(AdminServerTest, ClosesConnectionsThatDoNotAskInTime) {
  Start({.io_timeout = absl::Milliseconds(20)});
  Client silent(server_->port());
  EXPECT_EQ(silent.ReadToEnd(), "");
  Client slow(server_->port());
  slow.Send("GET /heal");
  EXPECT_EQ(slow.ReadToEnd(), "");
  Client idle(server_->port());
  idle.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(idle.ReadToEnd(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(AdminServerTest, ConnectionsThatAskNothingMakeRoom) {
  for (const AdminServerLimits& limits :
       {AdminServerLimits{.max_connections = 2},
        AdminServerLimits{.max_connections = 4, .max_connections_per_address = 2}}) {
    Start(limits);
    Client first(server_->port());
    Client second(server_->port());
    for (Client* client : {&first, &second}) {
      client->Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_THAT(client->ReadReply(), StartsWith("HTTP/1.1 200 OK\r\n"));
    }
    EXPECT_THAT(Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_EQ(first.ReadToEnd(), "") << "it waited longest";
    second.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(second.ReadToEnd(), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
}

TEST_F(AdminServerTest, HundredsOfSilentConnectionsKeepNoProbeOut) {
  Start();
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(std::make_unique<Client>(server_->port()));
    if (i % 2 == 1) silent.back()->Send("GET /live");  // it never ends
    if (i % 20 != 0) continue;
    EXPECT_THAT(Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n")) << i;
  }
  EXPECT_THAT(Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(AdminServerTest, OnLoopbackAForeignHostIsRefused) {
  const auto ask = [this](std::string_view fields) {
    return Ask(fmt::format("GET /metrics HTTP/1.1\r\n{}Connection: close\r\n\r\n", fields));
  };
  Start();
  for (const char* const host : {"evil.example", "evil.example:9090", "localhost:80@evil.com",
                                 "localhost.evil.example", "127.0.0.1.evil.example", ""}) {
    EXPECT_THAT(ask(fmt::format("Host: {}\r\n", host)), StartsWith("HTTP/1.1 403 ")) << host;
  }
  EXPECT_THAT(ask("Host: localhost\r\nHost: evil.example\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask("Host: 127.0.0.1:9090\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(""), StartsWith("HTTP/1.1 200 ")) << "no browser leaves it out";
  // Probes of Kubernetes name the address of the pod, and Prometheus the name of a service.
  Start({}, "0.0.0.0:0");
  EXPECT_THAT(ask("Host: lockstep-router.lockstep.svc:9090\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AdminServerTest, StopsAtOnceWhateverItsConnectionsDo) {
  Start();
  Client silent(server_->port());
  Client half(server_->port());
  half.Send("GET /metr");
  Client open(server_->port());
  open.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(open.ReadReply(), StartsWith("HTTP/1.1 200 OK\r\n"));
  server_.reset();
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(half.ReadToEnd(), "");
  EXPECT_EQ(open.ReadToEnd(), "");
}

TEST_F(AdminServerTest, ServesManyClientsAtOnce) {
  Start();
  std::atomic<int> num_ok = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 25; ++i)
        num_ok += Get("/metrics").starts_with("HTTP/1.1 200 OK\r\n") ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(num_ok, 100);
}

TEST_F(AdminServerTest, AddressHasTheRealPort) {
  Start({}, "localhost:0");
  EXPECT_EQ(FormatAddress(server_->address()), fmt::format("localhost:{}", server_->port()));
}

TEST_F(AdminServerTest, StartErrorsNameTheAddress) {
  Start();
  const std::string taken = fmt::format("127.0.0.1:{}", server_->port());
  const std::pair<std::string, absl::StatusCode> cases[] = {
      {taken, absl::StatusCode::kUnavailable},
      {"192.0.2.1:1", absl::StatusCode::kUnavailable},
      {"[fe80::1%nosuchlink]:80", absl::StatusCode::kInvalidArgument},
      {"127.0.0.1", absl::StatusCode::kInvalidArgument}};
  for (const auto& [address, code] : cases) {
    EXPECT_THAT(AdminServer::Start(address,
                                   {.metrics = registry_, .health = [] { return HealthReport{}; }}),
                HasError(code, HasSubstr(address)));
  }
}

}  // namespace
}  // namespace lockstep
