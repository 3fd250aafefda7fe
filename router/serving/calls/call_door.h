#pragma once

#include <absl/status/status.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "router/serving/calls/api_context.h"
#include "router/serving/calls/gatekeeper.h"
#include "router/tracing/request_trace.h"
#include "router/tracing/trace_context.h"

namespace lockstep::router {

// The way of a generation request to its GenerateCalls, the same for every transport: its trace
// begins, its tenant's limits are checked before it is read, and a refusal is counted. Over gRPC it
// also identifies the client; over HTTP the gateway does that for every path. One object for each
// request of a client. Used by one thread at a time.
class CallDoor {
 public:
  // `context` must outlive the object. `tenant`: if the client was identified before; null: no
  // tenant.
  explicit CallDoor(ApiContext& context, std::shared_ptr<const Tenant> tenant = nullptr)
      : context_(context), tenant_(std::move(tenant)) {}

  // Finds the tenant by the key in the "authorization" field. Not OK: the request is refused.
  absl::Status Identify(std::string_view authorization);
  // Call it once the client is known, so that strangers cannot make the router record anything.
  // `span_name`: until the request is read.
  void BeginTrace(const std::optional<TraceContext>& parent, std::string_view span_name) {
    trace_ = context_.BeginTrace(parent, span_name);
  }
  // Takes a place among the tenant's open requests. Not OK: the request is refused.
  absl::Status Admit();
  // Call it for a request that cannot become a GenerateCall. Counts it. The tenant may call again
  // at once.
  void Refuse(const absl::Status& status);
  // Call when the client has left. Gives back the request's place.
  void Leave() { permit_.reset(); }

  // Null: no tenant.
  const std::shared_ptr<const Tenant>& tenant() const { return tenant_; }
  std::string_view tenant_name() const { return NameOf(tenant_.get()); }
  // Null: the request is not recorded.
  const std::shared_ptr<RequestTrace>& trace() const { return trace_; }
  // The place, for the first GenerateCall. Null: there is no tenant, or it was taken.
  std::unique_ptr<Gatekeeper::Permit> TakePermit() { return std::move(permit_); }

 private:
  ApiContext& context_;
  std::shared_ptr<const Tenant> tenant_;
  std::shared_ptr<RequestTrace> trace_;
  std::unique_ptr<Gatekeeper::Permit> permit_;
};

}  // namespace lockstep::router
