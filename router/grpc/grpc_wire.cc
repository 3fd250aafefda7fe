#include "router/grpc/grpc_wire.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>

#include "common/net/percent_encoding.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kContentType = "application/grpc";
// Limit of an error's message before percent-encoding, which may triple it. The details repeat it.
constexpr size_t kMaxErrorMessageBytes = 1024;
constexpr size_t kMaxDetailsBytes = 2048;

// Cuts at the end of a character.
std::string_view Cut(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

bool IsGrpcContentType(std::string_view content_type) {
  if (!content_type.starts_with(kContentType)) return false;
  const std::string_view rest = content_type.substr(kContentType.size());
  return rest.empty() || rest[0] == '+' || rest[0] == ';';
}

std::optional<absl::Duration> ParseGrpcTimeout(std::string_view text) {
  constexpr size_t kMaxDigits = 8;
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  int64_t count = 0;
  for (const char digit : text.substr(0, text.size() - 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    count = count * 10 + (digit - '0');
  }
  switch (text.back()) {
    case 'H':
      return absl::Hours(count);
    case 'M':
      return absl::Minutes(count);
    case 'S':
      return absl::Seconds(count);
    case 'm':
      return absl::Milliseconds(count);
    case 'u':
      return absl::Microseconds(count);
    case 'n':
      return absl::Nanoseconds(count);
    default:
      return std::nullopt;
  }
}

HeaderList AnswerHead() { return {{":status", "200"}, {"content-type", kContentType}}; }

void AppendStatus(const GrpcStatus& status, HeaderList& fields) {
  fields.Add("grpc-status", fmt::format_int(static_cast<int>(status.code)).str());
  if (!status.message.empty()) {
    const bool cut = status.message.size() > kMaxErrorMessageBytes;
    const std::string_view kept = Cut(status.message, kMaxErrorMessageBytes);
    fields.Add("grpc-message",
               PercentEncoded(cut ? fmt::format("{}...", kept) : std::string(kept)));
  }
  if (!status.details.empty() && status.details.size() <= kMaxDetailsBytes) {
    fields.Add("grpc-status-details-bin", Base64(status.details));
  }
  if (status.accepts_identity_only) fields.Add("grpc-accept-encoding", "identity");
  if (status.retry_after_ms.has_value()) fields.Add("retry-after-ms", *status.retry_after_ms);
}

std::string Base64(std::string_view bytes) {
  std::string encoded = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
  encoded.erase(std::find(encoded.begin(), encoded.end(), '='), encoded.end());
  return encoded;
}

void WriteMessagePrefix(size_t num_bytes, char* to) {
  to[0] = 0;  // not compressed
  for (int i = 0; i < 4; ++i) to[1 + i] = static_cast<char>(num_bytes >> (24 - 8 * i));
}

size_t ReadMessageSize(const char* prefix) {
  size_t num_bytes = 0;
  for (int i = 1; i <= 4; ++i) num_bytes = num_bytes << 8 | static_cast<unsigned char>(prefix[i]);
  return num_bytes;
}

}  // namespace lockstep::router
