#include "router/auth/tenant_table.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/json/json.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

std::array<uint8_t, 32> Sha256(std::string_view text) {
  std::array<uint8_t, 32> digest;
  unsigned int num_bytes = 0;
  const int done =
      EVP_Digest(text.data(), text.size(), digest.data(), &num_bytes, EVP_sha256(), nullptr);
  LOCKSTEP_CHECK(done == 1 && num_bytes == digest.size(), "SHA-256 gave {} bytes", num_bytes);
  return digest;
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(digit));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<std::array<uint8_t, 32>> ParseHash(std::string_view hex) {
  std::array<uint8_t, 32> hash;
  if (hex.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return hash;
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= TenantTable::kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

// Its errors name places and kinds and quote nothing: by a slip, a key may stand anywhere in the
// file.
class TenantTableParser {
 public:
  explicit TenantTableParser(std::string_view file_name) : file_name_(file_name) {}

  absl::StatusOr<TenantTable> Parse(std::string_view text) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const nlohmann::json root,
        ParseJson(text, file_name_,
                  {.max_depth = 4, .max_values = 100'000, .max_quoted_bytes = 0}));
    if (!root.is_object()) {
      return InvalidArgument("{}: expected an object, got {}", file_name_, root.type_name());
    }
    JsonObjectReader reader(root, file_name_, /*path=*/"", /*quotes_values=*/false);
    const nlohmann::json* const tenants = reader.Find("tenants");
    if (tenants == nullptr || !tenants->is_array() || tenants->empty()) {
      return InvalidArgument("{}: expected an array of at least one tenant",
                             reader.Where("tenants"));
    }
    LOCKSTEP_RETURN_IF_ERROR(RefuseUnread(reader, file_name_, "tenants"));
    for (size_t i = 0; i < tenants->size(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(AddTenant((*tenants)[i], fmt::format("tenants[{}]", i)));
    }
    return std::move(table_);
  }

 private:
  absl::Status AddTenant(const nlohmann::json& object, const std::string& path) {
    if (!object.is_object()) {
      return InvalidArgument("{}: {}: expected an object, got {}", file_name_, path,
                             object.type_name());
    }
    JsonObjectReader reader(object, file_name_, path, /*quotes_values=*/false);
    auto tenant = std::make_shared<Tenant>();
    LOCKSTEP_ASSIGN_OR_RETURN(tenant->name, ReadName(reader, "name", ""));
    for (size_t i = 0; i < table_.tenants_.size(); ++i) {
      if (table_.tenants_[i]->name == tenant->name) {
        return InvalidArgument("{}: tenants[{}] has the same", reader.Where("name"), i);
      }
    }
    LOCKSTEP_ASSIGN_OR_RETURN(tenant->cache_group, ReadName(reader, "cache_group", tenant->name));
    LOCKSTEP_RETURN_IF_ERROR(ReadLimits(reader, *tenant));
    LOCKSTEP_RETURN_IF_ERROR(ReadKeys(reader));
    table_.tenants_.push_back(std::move(tenant));
    return RefuseUnread(reader, fmt::format("{}: {}", file_name_, path),
                        "name, key_sha256, cache_group, max_open_requests, tokens_per_second, "
                        "burst_tokens, weight");
  }

  absl::StatusOr<std::string> ReadName(JsonObjectReader& reader, std::string_view member,
                                       const std::string& by_default) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> name, reader.String(member));
    if (!name.has_value() && !by_default.empty()) return by_default;
    if (!name.has_value() || !IsName(*name)) {
      return InvalidArgument("{}: expected 1 to {} letters, digits or \"._-\"",
                             reader.Where(member), TenantTable::kMaxNameBytes);
    }
    return *name;
  }

  absl::Status ReadLimits(JsonObjectReader& reader, Tenant& tenant) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint64_t> open, reader.Uint("max_open_requests"));
    if (open.value_or(0) > UINT32_MAX) {
      return InvalidArgument("{}: expected at most {}", reader.Where("max_open_requests"),
                             UINT32_MAX);
    }
    tenant.max_open_requests = static_cast<uint32_t>(open.value_or(0));
    LOCKSTEP_ASSIGN_OR_RETURN(tenant.tokens_per_second,
                              ReadAmount(reader, "tokens_per_second", 0.0));
    LOCKSTEP_ASSIGN_OR_RETURN(tenant.burst_tokens,
                              ReadAmount(reader, "burst_tokens", tenant.tokens_per_second));
    LOCKSTEP_ASSIGN_OR_RETURN(tenant.weight, ReadAmount(reader, "weight", 1.0));
    if (tenant.weight < Tenant::kMinWeight || tenant.weight > Tenant::kMaxWeight) {
      return InvalidArgument("{}: expected {} to {}", reader.Where("weight"), Tenant::kMinWeight,
                             Tenant::kMaxWeight);
    }
    if (tenant.tokens_per_second > 0 && tenant.burst_tokens < 1) {
      return InvalidArgument("{}: expected at least 1, or no request is ever admitted",
                             reader.Where("burst_tokens"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> ReadAmount(JsonObjectReader& reader, std::string_view member,
                                    double by_default) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> amount, reader.Number(member));
    if (amount.value_or(0) < 0) {
      return InvalidArgument("{}: expected at least 0", reader.Where(member));
    }
    return amount.value_or(by_default);
  }

  absl::Status ReadKeys(JsonObjectReader& reader) {
    const nlohmann::json* const hashes = reader.Find("key_sha256");
    if (hashes == nullptr || !hashes->is_array() || hashes->empty()) {
      return InvalidArgument("{}: expected an array of at least one SHA-256",
                             reader.Where("key_sha256"));
    }
    for (const nlohmann::json& hash : *hashes) {
      const auto parsed =
          hash.is_string() ? ParseHash(hash.get_ref<const std::string&>()) : std::nullopt;
      if (!parsed.has_value()) {
        return InvalidArgument("{}: expected 64 hexadecimal digits", reader.Where("key_sha256"));
      }
      for (const TenantTable::Key& other : table_.keys_) {
        if (other.hash == *parsed) {
          return InvalidArgument("{}: a key appears twice", reader.Where("key_sha256"));
        }
      }
      if (table_.keys_.size() == TenantTable::kMaxKeys) {
        return InvalidArgument("{}: more than {} keys", file_name_, TenantTable::kMaxKeys);
      }
      table_.keys_.push_back({*parsed, table_.tenants_.size()});
    }
    return absl::OkStatus();
  }

  static absl::Status RefuseUnread(const JsonObjectReader& reader, std::string_view where,
                                   std::string_view known) {
    const size_t num_unread = reader.UnreadKeys().size();
    if (num_unread == 0) return absl::OkStatus();
    return InvalidArgument("{}: {} unknown member{}; known are {}", where, num_unread,
                           num_unread == 1 ? "" : "s", known);
  }

  const std::string file_name_;
  TenantTable table_;
};

absl::StatusOr<TenantTable> TenantTable::Parse(std::string_view text, std::string_view file_name) {
  return TenantTableParser(file_name).Parse(text);
}

std::shared_ptr<const Tenant> TenantTable::FindByKey(std::string_view key) const {
  const KeyHash hash = Sha256(key);
  size_t found = tenants_.size();
  for (const Key& candidate : keys_) {
    const bool equal = CRYPTO_memcmp(candidate.hash.data(), hash.data(), hash.size()) == 0;
    found = equal ? candidate.tenant : found;
  }
  return found < tenants_.size() ? tenants_[found] : nullptr;
}

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (absl::ascii_tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return {};
  }
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

}  // namespace lockstep::router
