#include "router/grpc/grpc_status.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>

#include <cstdint>
#include <string>

#include "router/serving/validation/client_message.h"
#include "router/serving/validation/retry_hint.h"

namespace lockstep::router {
namespace {

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void AppendBytes(uint32_t field, const std::string& bytes, std::string& out) {
  AppendVarint(field << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

// Encodes a google.rpc.Status with a google.rpc.RetryInfo by hand, because no package of the
// distribution has these messages: Status {1: code, 2: message, 3: Any}, RetryInfo {1: Duration}.
std::string RetryDetails(const absl::Status& status, absl::Duration retry_after) {
  google::protobuf::Duration delay;
  absl::Duration rest;
  delay.set_seconds(absl::IDivDuration(retry_after, absl::Seconds(1), &rest));
  delay.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  google::protobuf::Any info;
  info.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  AppendBytes(1, delay.SerializeAsString(), *info.mutable_value());

  std::string details;
  AppendVarint(1 << 3, details);
  AppendVarint(static_cast<uint64_t>(status.code()), details);
  AppendBytes(2, ClientMessage(status), details);
  AppendBytes(3, info.SerializeAsString(), details);
  return details;
}

}  // namespace

GrpcStatus FinalStatus(const absl::Status& status, absl::Duration retry_after) {
  GrpcStatus end = GrpcStatus::Of(status);
  if (!absl::IsResourceExhausted(status) && !absl::IsUnavailable(status)) return end;
  const absl::Duration hint = RetryAfterOf(status, retry_after);
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(hint, absl::Milliseconds(1)));
  end.retry_after_ms = absl::StrCat(milliseconds);
  end.details = RetryDetails(status, hint);
  return end;
}

}  // namespace lockstep::router
