#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "tests/common/status_matchers.h"
#include "tests/router/front/http_client.h"
#include "tests/router/front/https_client.h"
#include "tests/router/front/scripted_server.h"
#include "tests/support/test_certificates.h"

// HTTPS with Beast's client. Certificates are made on the spot.
namespace lockstep::testing {
namespace {

namespace http = boost::beast::http;
using ::testing::HasSubstr;

class HttpTlsTest : public ::testing::Test {
 protected:
  HttpTlsTest() {
    TestAuthority::Write(folder_, "server", authority_.Issue("first"));
    files_ = {.cert_path = folder_.path() + "/server.pem",
              .key_path = folder_.path() + "/server.key",
              .client_ca_path = {}};
  }
  void Start() { server_ = std::make_unique<ScriptedServer>(limits_, files_); }
  HttpsClient Connect(const ClientFiles& files) { return HttpsClient(server_->port(), files); }
  ClientFiles Trusting() const { return {.ca_pem = authority_.cert_pem()}; }

  const TempFolder folder_;
  const TestAuthority authority_{"authority"};
  TlsFiles files_;
  router::ConnectionLimits limits_ = ScriptedServer::Limits();
  std::unique_ptr<ScriptedServer> server_;
};

TEST_F(HttpTlsTest, CarriesRequestsAndLargeAnswers) {
  Start();
  HttpsClient client = Connect(Trusting());
  EXPECT_EQ(client.Ask(http::verb::post, "/echo", "hello"), "POST hello");
  EXPECT_THAT(client.Ask(http::verb::get, "/stream"), HasSubstr("data: event"));
  const std::string body(1 << 20, 'b');
  EXPECT_EQ(client.Ask(http::verb::post, "/echo", body), "POST " + body);
  EXPECT_EQ(server_->metrics().connections->Value(), 1);
}

TEST_F(HttpTlsTest, ARefusalReachesWhoSendsItsBodyAllTheSame) {
  Start();
  for (const int version : {TLS1_2_VERSION, 0}) {
    ClientFiles files = Trusting();
    files.max_version = version;
    HttpsClient refused = Connect(files);
    EXPECT_EQ(refused.Ask(http::verb::post, "/guarded", std::string(1 << 20, 'b')), "{}");
    EXPECT_TRUE(refused.WaitUntilClosed());
    HttpsClient large = Connect(files);
    EXPECT_THAT(large.Ask(http::verb::post, "/echo", std::string((1 << 20) + 1, 'b')),
                HasSubstr("too large"));
    EXPECT_TRUE(large.WaitUntilClosed());
  }
  EXPECT_EQ(server_->held_body_bytes(), 0u);
}

TEST_F(HttpTlsTest, AnUnknownAuthorityIsRefusedByTheClient) {
  Start();
  const TestAuthority other("other");
  EXPECT_TRUE(Connect({.ca_pem = other.cert_pem()}).handshake_error());
  while (server_->metrics().refused_for_handshake->Value() == 0) std::this_thread::yield();
  EXPECT_EQ(Connect(Trusting()).Ask(http::verb::get, "/echo"), "GET ");
}

TEST_F(HttpTlsTest, ClientsNeedACertificateWhereOneIsAskedFor) {
  files_.client_ca_path = TestAuthority::Replace(folder_, "clients.pem", authority_.cert_pem());
  Start();
  EXPECT_THAT(Connect(Trusting()).Ask(http::verb::get, "/echo"), HasSubstr("failed"));
  const TestAuthority other("other");
  ClientFiles files = Trusting();
  files.identity = other.Issue("client");
  EXPECT_THAT(Connect(files).Ask(http::verb::get, "/echo"), HasSubstr("failed"));
  files.identity = authority_.Issue("client");
  EXPECT_EQ(Connect(files).Ask(http::verb::get, "/echo"), "GET ");
}

TEST_F(HttpTlsTest, NewConnectionsGetTheNewFilesAndOldOnesGoOn) {
  Start();
  HttpsClient old = Connect(Trusting());
  EXPECT_EQ(old.ServerName(), "first");
  TestAuthority::Write(folder_, "server", authority_.Issue("second"));
  HttpsClient renewed = Connect(Trusting());
  EXPECT_EQ(renewed.ServerName(), "second");
  EXPECT_EQ(renewed.Ask(http::verb::get, "/echo"), "GET ");
  EXPECT_EQ(old.Ask(http::verb::get, "/echo"), "GET ");
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedLeaveTheOldOnes) {
  Start();
  const std::string key = authority_.Issue("another").key_pem;
  for (const std::string& wrong : {std::string("nonsense"), std::string(), key}) {
    TestAuthority::Replace(folder_, "server.key", wrong);
    EXPECT_EQ(Connect(Trusting()).ServerName(), "first");
  }
  TestAuthority::Write(folder_, "server", authority_.Issue("second"));
  EXPECT_EQ(Connect(Trusting()).ServerName(), "second");
}

TEST_F(HttpTlsTest, OldVersionsAreRefused) {
  Start();
  ClientFiles files = Trusting();
  files.max_version = TLS1_1_VERSION;
  EXPECT_TRUE(Connect(files).handshake_error());
  files.max_version = TLS1_2_VERSION;
  EXPECT_FALSE(Connect(files).handshake_error());
}

TEST_F(HttpTlsTest, PlaintextIsClosed) {
  Start();
  HttpClient client(server_->port());
  client.Send("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(client.WaitUntilClosed());
  EXPECT_EQ(server_->metrics().refused_for_handshake->Value(), 1);
  EXPECT_EQ(Connect(Trusting()).Ask(http::verb::get, "/echo"), "GET ");
}

TEST_F(HttpTlsTest, AHandshakeThatTakesTooLongIsGivenUp) {
  limits_.header_timeout = absl::Milliseconds(50);
  Start();
  HttpClient silent(server_->port());
  EXPECT_TRUE(silent.WaitUntilClosed());
  EXPECT_EQ(server_->metrics().refused_for_handshake->Value(), 1);
}

TEST_F(HttpTlsTest, TheLastAnswerEndsWithTheStream) {
  limits_.idle_timeout = absl::Milliseconds(50);
  Start();
  HttpsClient client = Connect(Trusting());
  EXPECT_THAT(client.Ask(http::verb::put, "/a b"), HasSubstr("no HTTP/1.1 request"));
  EXPECT_TRUE(client.WaitUntilClosed());
}

TEST_F(HttpTlsTest, ErrorsNameTheFile) {
  TestAuthority::Replace(folder_, "server.pem", "nonsense");
  EXPECT_THAT(router::ServerTls::Load(files_).status(),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("server.pem")));
}

}  // namespace
}  // namespace lockstep::testing
