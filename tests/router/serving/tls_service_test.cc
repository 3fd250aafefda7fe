#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "router/client/generation_client.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/router/serving/test_tenants.h"

// TLS on the public API and between router and worker, with everything behind it.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;

class TlsServiceTest : public ServingTest {
 protected:
  TlsServiceTest() {
    TestAuthority::Write(folder_, "router", authority_.Issue("router"));
    TestAuthority::Write(folder_, "worker", authority_.Issue("worker.internal", false));
    TestAuthority::Write(folder_, "client", authority_.Issue("client", false));
    TestAuthority::Write(folder_, "stranger", stranger_.Issue("client", false));
    folder_.Write("ca.pem", authority_.cert_pem());
    folder_.Write("stranger-ca.pem", stranger_.cert_pem());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  TlsFiles ServerFiles(const std::string& prefix, const std::string& client_ca) const {
    return {Path(prefix + ".pem"), Path(prefix + ".key"), client_ca.empty() ? "" : Path(client_ca)};
  }
  // `prefix` empty: no certificate is shown.
  TlsClientFiles ClientFiles(const std::string& ca, const std::string& prefix = "",
                             const std::string& server_name = "") const {
    if (prefix.empty()) return {Path(ca), "", "", server_name};
    return {Path(ca), Path(prefix + ".pem"), Path(prefix + ".key"), server_name};
  }
  // Of a connection of its own.
  grpc::Status AskModel(const TlsClientFiles& tls) const {
    const auto stub = v1::Generation::NewStub(OpenChannel(tls));
    grpc::ClientContext context;
    v1::Model model;
    return stub->GetModel(&context, v1::GetModelRequest(), &model);
  }
  // No worker is needed to ask.
  void StartRouterAlone() {
    StartWorker();
    StartRouter();
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
  const TempFolder folder_;
};

TEST_F(TlsServiceTest, StreamsOverTls) {
  router_config_.front.tls = ServerFiles("router", "");
  client_tls_ = ClientFiles("ca.pem");
  StartBoth();
  const Reply reply = Generate(TextRequest("Hello", 30));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), Continuation(6, 30));
}

TEST_F(TlsServiceTest, ClientsTrustTheirAuthorityAndTheNameOnly) {
  router_config_.front.tls = ServerFiles("router", "");
  StartRouterAlone();
  EXPECT_TRUE(AskModel(ClientFiles("ca.pem")).ok());
  EXPECT_TRUE(AskModel(ClientFiles("ca.pem", "", "router")).ok());
  EXPECT_EQ(AskModel(ClientFiles("stranger-ca.pem")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(AskModel(ClientFiles("ca.pem", "", "elsewhere")).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(AskModel({}).error_code(), grpc::StatusCode::UNAVAILABLE);  // plaintext
}

TEST_F(TlsServiceTest, ClientsNeedACertificateWhereOneIsAskedFor) {
  router_config_.front.tls = ServerFiles("router", "ca.pem");
  StartRouterAlone();
  EXPECT_TRUE(AskModel(ClientFiles("ca.pem", "client")).ok());
  EXPECT_EQ(AskModel(ClientFiles("ca.pem")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(AskModel(ClientFiles("ca.pem", "stranger")).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsServiceTest, CertificatesAreReplacedWhileTheRouterRuns) {
  router_config_.front.tls = ServerFiles("router", "");
  client_tls_ = ClientFiles("ca.pem");
  StartBoth();
  EXPECT_FALSE(AskModel(ClientFiles("stranger-ca.pem")).ok());
  EXPECT_TRUE(Generate(TextRequest("Hello", 4)).status.ok());
  TestAuthority::Write(folder_, "router", stranger_.Issue("router"));
  Eventually("the new certificate is shown",
             [&] { return AskModel(ClientFiles("stranger-ca.pem")).ok(); });
  EXPECT_FALSE(AskModel(ClientFiles("ca.pem")).ok());
  // A connection outlives the certificate that it began with.
  EXPECT_TRUE(Generate(TextRequest("Hello", 4)).status.ok());
}

TEST_F(TlsServiceTest, AuthoritiesOfClientsAreReplacedWhileTheRouterRuns) {
  router_config_.front.tls = ServerFiles("router", "ca.pem");
  StartRouterAlone();
  TestAuthority::Replace(folder_, "ca.pem", authority_.cert_pem() + stranger_.cert_pem());
  Eventually("clients of the other authority may call",
             [&] { return AskModel(ClientFiles("ca.pem", "stranger")).ok(); });
}

TEST_F(TlsServiceTest, TheCommandLinesClientShowsKeyAndCertificate) {
  router_config_.front.tls = ServerFiles("router", "ca.pem");
  router_config_.tenants_path = WriteTenants(folder_, {{"acme", {"acme-key"}}});
  StartRouterAlone();
  const std::string address = FormatAddress(router_->address());
  using router::GenerationClient;
  GenerationClient knows(address, {.tls = ClientFiles("ca.pem", "client"), .api_key = "acme-key"});
  EXPECT_TRUE(knows.WaitUntilReady(absl::Minutes(1)).ok());
  EXPECT_TRUE(knows.Generate(TextRequest("Hello", 2), absl::Minutes(1), [](const auto&) {}).ok());
  GenerationClient keyless(address, {.tls = ClientFiles("ca.pem", "client"), .api_key = ""});
  EXPECT_EQ(keyless.GetModel(absl::Minutes(1)).status().code(), absl::StatusCode::kUnauthenticated);
  GenerationClient plain(address);
  EXPECT_EQ(plain.GetModel(absl::Minutes(1)).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsServiceTest, RouterAndWorkerKnowEachOtherByCertificates) {
  worker_tls_ = ServerFiles("worker", "ca.pem");
  link_tls_ = ClientFiles("ca.pem", "client", "worker.internal");
  StartBoth();
  EXPECT_EQ(Generate(TextRequest("Hello", 30)).Text(), Continuation(6, 30));
}

TEST_F(TlsServiceTest, AWorkerServesNoRouterWithoutACertificateThatItTrusts) {
  worker_tls_ = ServerFiles("worker", "ca.pem");
  for (const TlsClientFiles& files :
       {TlsClientFiles(), ClientFiles("ca.pem", "", "worker.internal"),
        ClientFiles("ca.pem", "stranger", "worker.internal"),
        ClientFiles("stranger-ca.pem", "client", "worker.internal"),
        ClientFiles("ca.pem", "client")}) {  // no name of the worker's: its address is not in it
    link_tls_ = files;
    StartWorker();
    StartRouter();
    Eventually("an attempt has failed", [&] {
      return router_->engine().replica_status().worker_text.find("Describe failed") !=
             std::string::npos;
    });
    EXPECT_FALSE(router_->engine().ready());
    router_.reset();
    worker_.reset();
  }
}

TEST_F(TlsServiceTest, ARouterThatLacksACertificateGetsOneWhileItRuns) {
  worker_tls_ = ServerFiles("worker", "ca.pem");
  TestAuthority::Write(folder_, "link", stranger_.Issue("router", false));
  link_tls_ = ClientFiles("ca.pem", "link", "worker.internal");
  StartWorker();
  StartRouter();
  Eventually("an attempt has failed", [&] {
    return router_->engine().replica_status().worker_text.find("Describe failed") !=
           std::string::npos;
  });
  TestAuthority::Write(folder_, "link", authority_.Issue("router", false));
  WaitForReadiness(true);
}

}  // namespace
}  // namespace lockstep::testing
