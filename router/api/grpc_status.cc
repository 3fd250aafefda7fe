#include "router/api/grpc_status.h"

#include <absl/strings/str_cat.h>

#include "common/status.h"

namespace lockstep::router {

grpc::Status FinalStatus(const absl::Status& status, absl::Duration retry_after,
                         grpc::CallbackServerContext& context) {
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
    context.AddTrailingMetadata("retry-after-ms",
                                absl::StrCat(absl::ToInt64Milliseconds(retry_after)));
  }
  return ToGrpcStatus(status);
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Message(status));
}

}  // namespace lockstep::router
