#include "router/auth/tenant_table.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

// SHA-256 of "alpha-key", "beta-key" and "beta-new-key", by sha256sum.
constexpr std::string_view kAlphaHash =
    "677509799af78b2efa2f2af71d0f906e0a0c50c048efd3b515625f788e92b99a";
constexpr std::string_view kBetaHash =
    "7a3d637bc601f7000cc2c33141c8c8a7554e02e319fa8b293a0c88c613b77620";
constexpr std::string_view kBetaNewHash =
    "5790e47d1f1df13d9ee0a8fa9ef3b232b8d75d00779f1520c3efa3ab2a4e5686";

absl::StatusOr<TenantTable> ParseTenants(const std::string& tenants) {
  return TenantTable::Parse("{\"tenants\": [" + tenants + "]}", "tenants.json");
}

std::string TenantWith(std::string_view name, std::string_view hash, std::string_view more = "") {
  return fmt::format(R"({{"name": "{}", "key_sha256": ["{}"]{}}})", name, hash, more);
}

TEST(TenantTableTest, FindsWhoseKeyItIs) {
  const auto table = ParseTenants(
      TenantWith("alpha", kAlphaHash) + "," +
      fmt::format(R"({{"name": "beta", "key_sha256": ["{}", "{}"]}})", kBetaHash, kBetaNewHash));
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->num_tenants(), 2u);
  EXPECT_EQ(table->num_keys(), 3u);
  ASSERT_NE(table->FindByKey("alpha-key"), nullptr);
  EXPECT_EQ(table->FindByKey("alpha-key")->name, "alpha");
  ASSERT_NE(table->FindByKey("beta-key"), nullptr);
  EXPECT_EQ(table->FindByKey("beta-key")->name, "beta");
  EXPECT_EQ(table->FindByKey("beta-new-key"), table->FindByKey("beta-key"));
  for (const std::string_view other : {"", "alpha", "alpha-key ", "ALPHA-KEY"}) {
    EXPECT_EQ(table->FindByKey(other), nullptr) << other;
  }
  EXPECT_EQ(table->FindByKey(kAlphaHash), nullptr) << "a hash is no key";
}

TEST(TenantTableTest, ReadsLimitsAndTheirDefaults) {
  const auto table = ParseTenants(
      TenantWith("plain", kAlphaHash) + "," +
      TenantWith("limited", kBetaHash,
                 R"(, "cache_group": "shared", "max_open_requests": 7, "tokens_per_second": 100.5,
                    "weight": 2)"));
  ASSERT_THAT(table, IsOk());
  const auto plain = table->FindByKey("alpha-key");
  EXPECT_EQ(plain->cache_group, "plain");
  EXPECT_EQ(plain->max_open_requests, 0u);
  EXPECT_EQ(plain->tokens_per_second, 0);
  EXPECT_EQ(plain->weight, 1);
  const auto limited = table->FindByKey("beta-key");
  EXPECT_EQ(limited->cache_group, "shared");
  EXPECT_EQ(limited->max_open_requests, 7u);
  EXPECT_EQ(limited->tokens_per_second, 100.5);
  EXPECT_EQ(limited->burst_tokens, 100.5);
  EXPECT_EQ(limited->weight, 2);
}

TEST(TenantTableTest, NamesWhatIsWrong) {
  const struct {
    std::string tenants;
    std::string_view message;
  } cases[] = {
      {"", "tenants.json: tenants: expected an array of at least one tenant"},
      {"3", "tenants.json: tenants[0]: expected an object, got number"},
      {R"({"key_sha256": ["x"]})", "tenants[0].name: expected 1 to 64 letters"},
      {TenantWith("a b", kAlphaHash), "tenants[0].name: expected 1 to 64 letters"},
      {TenantWith(std::string(65, 'a'), kAlphaHash), "tenants[0].name: expected 1 to 64 letters"},
      {R"({"name": "a"})", "tenants[0].key_sha256: expected an array of at least one SHA-256"},
      {TenantWith("a", "alpha-key"), "tenants[0].key_sha256: expected 64 hexadecimal digits"},
      {TenantWith("a", kAlphaHash) + "," + TenantWith("a", kBetaHash),
       "tenants[1].name: tenants[0] has the same"},
      {TenantWith("a", kAlphaHash) + "," + TenantWith("b", kAlphaHash),
       "tenants[1].key_sha256: a key appears twice"},
      {TenantWith("a", kAlphaHash, R"(, "max_open_requests": -1)"), "tenants[0].max_open_requests"},
      {TenantWith("a", kAlphaHash, R"(, "max_open_requests": 4294967296)"),
       "expected at most 4294967295"},
      {TenantWith("a", kAlphaHash, R"(, "tokens_per_second": -1)"), "expected at least 0"},
      {TenantWith("a", kAlphaHash, R"(, "tokens_per_second": 5, "burst_tokens": 0)"),
       "tenants[0].burst_tokens: expected at least 1"},
      {TenantWith("a", kAlphaHash, R"(, "weight": 0)"),
       "tenants[0].weight: expected 0.001 to 1000"},
      {TenantWith("a", kAlphaHash, R"(, "weight": 1001)"), "tenants[0].weight: expected 0.001 to"},
      {TenantWith("a", kAlphaHash, R"(, "wieght": 2)"),
       "tenants[0]: 1 unknown member; known are name, "},
  };
  for (const auto& [tenants, message] : cases) {
    const auto table = ParseTenants(tenants);
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << tenants;
    EXPECT_NE(Message(table.status()).find(message), std::string::npos) << table.status();
  }
}

TEST(TenantTableTest, QuotesNothingOfTheFile) {
  const std::string key = "sk-secret";
  const std::string files[] = {
      TenantWith("a", key),
      TenantWith(key, kAlphaHash) + "," + TenantWith(key, kBetaHash),
      TenantWith("a", kAlphaHash, R"(, "weight": "sk-secret")"),
      TenantWith("a", kAlphaHash, R"(, "max_open_requests": ["sk-secret"])"),
      TenantWith("a", kAlphaHash, R"(, "sk-secret": 1)"),
      TenantWith("a", kAlphaHash, R"(, "sk-secret": 1, "sk-secret": 2)"),
      R"({"name": {"sk-secret": 1}})",
      R"({"name": "a", "key_sha256": "sk-secret"})",
      R"({"name": "a", "key_sha256": [{"sk-secret": "sk-secret"}]})",
      R"("sk-secret")",
      R"(["sk-secret"])",
      R"({"name": "a", "key_sha256": ["sk-secret)",
      "{\"name\": \"a\", \"key_sha256\": [\"sk-secret\n\"]}",
      "{\"name\": \"a\", \"key_sha256\": [\"sk-secret\xff\"]}",
      R"({"name": "a", "key_sha256": [sk-secret]})",
      R"({"name": "a", "key_sha256": ['sk-secret']})",
      R"({"name": "a", sk-secret})",
  };
  for (const std::string& tenants : files) {
    const auto table = ParseTenants(tenants);
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << tenants;
    const std::string error = Message(table.status());
    EXPECT_EQ(error.find("secret"), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("tenants.json: ")) << error;
  }
  for (const std::string_view file : {"sk-secret", R"("sk-secret")", R"({"sk-secret": [{}]})",
                                      R"({"tenants": "sk-secret"})", R"(["sk-secret", 1e999)"}) {
    const absl::Status status = TenantTable::Parse(file, "tenants.json").status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file;
    EXPECT_EQ(Message(status).find("secret"), std::string::npos) << status;
  }
}

TEST(BearerKeyTest, TakesTheKeyOutOfTheHeader) {
  EXPECT_EQ(BearerKey("Bearer abc"), "abc");
  EXPECT_EQ(BearerKey("bearer abc"), "abc");
  EXPECT_EQ(BearerKey("Bearer   abc"), "abc");
  for (const std::string_view none : {"", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"}) {
    EXPECT_EQ(BearerKey(none), "") << none;
  }
}

}  // namespace
}  // namespace lockstep::router
