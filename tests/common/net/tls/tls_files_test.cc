#include "common/net/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "tests/support/test_certificates.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TestAuthority;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    TestAuthority::Write(folder_, "server", authority_.Issue("server"));
    TestAuthority::Write(folder_, "other", authority_.Issue("other"));
    folder_.Write("ca.pem", authority_.cert_pem());
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TestAuthority authority_{"authority"};
  const TempFolder folder_;
};

TEST_F(TlsFilesTest, NoneAtAllMeansNoTls) {
  EXPECT_FALSE(TlsFiles().enabled());
  EXPECT_THAT(TlsFiles().Validate(), IsOk());
  EXPECT_FALSE(TlsClientFiles().enabled());
  EXPECT_THAT(TlsClientFiles().Validate(), IsOk());
}

TEST_F(TlsFilesTest, AWholeSetPasses) {
  const TlsFiles files{Path("server.pem"), Path("server.key"), Path("ca.pem")};
  EXPECT_TRUE(files.enabled());
  EXPECT_THAT(files.Validate(), IsOk());
  const TlsClientFiles client{Path("ca.pem"), Path("other.pem"), Path("other.key"), "server"};
  EXPECT_TRUE(client.enabled());
  EXPECT_THAT(client.Validate(), IsOk());
}

TEST_F(TlsFilesTest, HalfASetIsRefused) {
  EXPECT_THAT(
      (TlsFiles{.cert_path = Path("server.pem"), .key_path = "", .client_ca_path = ""}.Validate()),
      HasError(absl::StatusCode::kInvalidArgument, HasSubstr("come together")));
  EXPECT_THAT(
      (TlsFiles{.cert_path = "", .key_path = Path("server.key"), .client_ca_path = ""}.Validate()),
      HasError(absl::StatusCode::kInvalidArgument, HasSubstr("come together")));
  EXPECT_THAT(
      (TlsFiles{.cert_path = "", .key_path = "", .client_ca_path = Path("ca.pem")}.Validate()),
      HasError(absl::StatusCode::kInvalidArgument, HasSubstr("of the server")));
  EXPECT_THAT((TlsClientFiles{"", Path("other.pem"), Path("other.key"), ""}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("authorities")));
  EXPECT_THAT((TlsClientFiles{"", "", "", "server"}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("authorities")));
  EXPECT_THAT((TlsClientFiles{Path("ca.pem"), "", Path("other.key"), ""}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("come together")));
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsRefused) {
  EXPECT_THAT(
      (TlsFiles{Path("server.pem"), Path("other.key"), ""}.Validate()),
      HasError(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("other.key: expected the key of"), HasSubstr("server.pem"))));
}

TEST_F(TlsFilesTest, AFileThatIsSomethingElseIsNamedButNotQuoted) {
  folder_.Write("odd.key", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n");
  EXPECT_THAT((TlsFiles{Path("server.pem"), Path("odd.key"), ""}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("odd.key: expected a PEM private key"),
                             Not(HasSubstr("c2VjcmV0")))));
  EXPECT_THAT((TlsFiles{Path("server.key"), Path("server.key"), ""}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument,
                       HasSubstr("server.key: expected a PEM certificate")));
  EXPECT_THAT((TlsFiles{Path("server.pem"), Path("server.key"), Path("odd.key")}.Validate()),
              HasError(absl::StatusCode::kInvalidArgument,
                       HasSubstr("odd.key: expected a PEM certificate")));
  EXPECT_THAT((TlsClientFiles{Path("none.pem"), "", "", ""}.Validate()),
              HasError(absl::StatusCode::kNotFound, HasSubstr("none.pem")));
}

}  // namespace
}  // namespace lockstep
