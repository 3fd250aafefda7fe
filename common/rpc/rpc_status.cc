#include "common/rpc/rpc_status.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <cstdint>

namespace lockstep {
namespace {

constexpr char kHexDigits[] = "0123456789ABCDEF";

int HexValue(char digit) {
  if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) return -1;
  return digit <= '9' ? digit - '0'
                      : absl::ascii_tolower(static_cast<unsigned char>(digit)) - 'a' + 10;
}

absl::StatusCode CodeOfReset(uint32_t reset_code) {
  switch (reset_code) {
    case NGHTTP2_CANCEL:
      return absl::StatusCode::kCancelled;
    case NGHTTP2_REFUSED_STREAM:
    case NGHTTP2_NO_ERROR:
      return absl::StatusCode::kUnavailable;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string EncodeRpcMessage(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += kHexDigits[byte >> 4];
    encoded += kHexDigits[byte & 15];
  }
  return encoded;
}

std::string DecodeRpcMessage(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
    const int low = high >= 0 ? HexValue(text[i + 2]) : -1;
    if (low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return decoded;
}

absl::Status RpcStatusOf(std::string_view code, std::string_view message,
                         std::string_view http_status, uint32_t reset_code) {
  uint32_t number = 0;
  if (!code.empty()) {
    const bool known = absl::SimpleAtoi(std::string(code), &number) && number <= 16;
    return absl::Status(known ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown,
                        DecodeRpcMessage(message));
  }
  if (!http_status.empty() && http_status != "200") {
    // As gRPC's own clients map them.
    const absl::StatusCode of = http_status == "401"   ? absl::StatusCode::kUnauthenticated
                                : http_status == "403" ? absl::StatusCode::kPermissionDenied
                                : http_status == "404" ? absl::StatusCode::kUnimplemented
                                : http_status == "429" || http_status == "502" ||
                                        http_status == "503" || http_status == "504"
                                    ? absl::StatusCode::kUnavailable
                                    : absl::StatusCode::kUnknown;
    return absl::Status(of, fmt::format("the answer has HTTP status {}", http_status));
  }
  return absl::Status(CodeOfReset(reset_code), fmt::format("the stream was reset with {}",
                                                           nghttp2_http2_strerror(reset_code)));
}

}  // namespace lockstep
