#include "router/auth/tenant_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

// SHA-256 of "old-key" and "new-key".
constexpr std::string_view kOldHash =
    "762c08fc17a1cc5f00d248f8b50f2f2f4d17ff2934ac31e64deacb3f5bb3f2ec";
constexpr std::string_view kNewHash =
    "479a61d5370a0351ad498a8f324e0f9ad50bfafbe4c044ea49cbe3981e8cb573";

class TenantFileTest : public ::testing::Test {
 protected:
  void Write(std::string_view text) const { std::ofstream(path_, std::ios::trunc) << text; }
  void WriteKey(std::string_view hash) const {
    Write(fmt::format(R"({{"tenants": [{{"name": "a", "key_sha256": ["{}"]}}]}})", hash));
  }

  const std::string path_ = std::filesystem::path(::testing::TempDir()) / "tenant-file-test.json";
};

TEST_F(TenantFileTest, TakesUpWhatChanged) {
  WriteKey(kOldHash);
  const auto file = TenantFile::Open(path_, absl::Hours(1));
  ASSERT_THAT(file, IsOk());
  const std::shared_ptr<const TenantTable> before = (*file)->current();
  EXPECT_NE(before->FindByKey("old-key"), nullptr);
  ASSERT_THAT((*file)->Reload(), IsOk());
  EXPECT_EQ((*file)->current(), before) << "nothing has changed";

  WriteKey(kNewHash);
  ASSERT_THAT((*file)->Reload(), IsOk());
  EXPECT_EQ((*file)->current()->FindByKey("old-key"), nullptr);
  EXPECT_NE((*file)->current()->FindByKey("new-key"), nullptr);
  EXPECT_NE(before->FindByKey("old-key"), nullptr) << "who holds the table keeps it";
}

TEST_F(TenantFileTest, KeepsWhatItHasWhenTheFileIsBroken) {
  WriteKey(kOldHash);
  const auto file = TenantFile::Open(path_, absl::Hours(1));
  ASSERT_THAT(file, IsOk());
  Write("{");
  EXPECT_EQ((*file)->Reload().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(path_);
  EXPECT_EQ((*file)->Reload().code(), absl::StatusCode::kNotFound);
  EXPECT_NE((*file)->current()->FindByKey("old-key"), nullptr);
}

TEST_F(TenantFileTest, ReadsAgainByItself) {
  WriteKey(kOldHash);
  const auto file = TenantFile::Open(path_, absl::Milliseconds(1));
  ASSERT_THAT(file, IsOk());
  WriteKey(kNewHash);
  while ((*file)->current()->FindByKey("new-key") == nullptr) {
  }
}

TEST_F(TenantFileTest, DoesNotOpenAFileThatIsMissingOrBroken) {
  std::filesystem::remove(path_);
  EXPECT_EQ(TenantFile::Open(path_, absl::Hours(1)).status().code(), absl::StatusCode::kNotFound);
  Write("{}");
  EXPECT_EQ(TenantFile::Open(path_, absl::Hours(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::router
