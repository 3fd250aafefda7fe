#include "common/rpc/rpc_status.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string>

#include "common/net/percent_encoding.h"

namespace lockstep {
namespace {

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

absl::Status RpcStatusOf(std::string_view code, std::string_view message,
                         std::string_view http_status, uint32_t reset_code) {
  uint32_t number = 0;
  if (!code.empty()) {
    const bool known = absl::SimpleAtoi(std::string(code), &number) && number <= 16;
    return absl::Status(known ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown,
                        PercentDecoded(message));
  }
  if (!http_status.empty() && http_status != "200") {
    // The mapping of gRPC's own clients.
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
