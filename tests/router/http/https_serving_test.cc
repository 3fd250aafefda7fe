#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/common/temp_folder.h"
#include "tests/router/front/https_client.h"
#include "tests/router/http/http_fixture.h"
#include "tests/support/test_certificates.h"

// The whole server in TLS.
namespace lockstep::testing {
namespace {

namespace http = boost::beast::http;
using ::testing::HasSubstr;

class HttpsServingTest : public HttpServingTest {};

TEST_F(HttpsServingTest, AHandshakeTakesAConnectionOfThose) {
  const TempFolder folder;
  const TestAuthority authority("authority");
  TestAuthority::Write(folder, "server", authority.Issue("server"));
  http_config_.tls = {.cert_path = folder.path() + "/server.pem",
                      .key_path = folder.path() + "/server.key",
                      .client_ca_path = {}};
  http_config_.max_connections = 1;
  StartAll();
  {
    HttpsClient client(port(), {.ca_pem = authority.cert_pem()});
    EXPECT_THAT(
        client.Ask(http::verb::post, "/v1/completions", R"({"prompt": "Hello", "max_tokens": 5})"),
        HasSubstr(Continuation(6, 5)));
  }
  // A place is free once the server has noticed.
  std::unique_ptr<HttpClient> silent;
  const auto refused = [this] {
    for (const auto& family : registry_.Collect()) {
      if (family.name != "lockstep_router_http_connections") continue;
      return family.metric.at(0).gauge.value == 0;
    }
    return false;
  };
  Eventually("it is gone", refused);
  silent = std::make_unique<HttpClient>(port());
  Eventually("its handshake is awaited", [&] { return !refused(); });
  EXPECT_TRUE(HttpClient(port()).WaitUntilClosed());
}

}  // namespace
}  // namespace lockstep::testing
