#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/auth/tenant_file.h"
#include "router/auth/tenant_limiter.h"
#include "router/core/messages/request.h"
#include "router/engine/router_metrics.h"

namespace lockstep::router {

// Identifies the tenant of a call and enforces its limits. Safe to use from any thread. Keys appear
// in no error and in no log.
class Gatekeeper {
 public:
  // One open request of a tenant, until it is destroyed.
  class Pass {
   public:
    Pass(std::unique_ptr<TenantLimiter::Ticket> ticket, const TenantSeries& series);
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass();

    void ChargePrompt(size_t num_tokens) const;
    void ChargeOutput(size_t num_tokens) const;

   private:
    const std::unique_ptr<TenantLimiter::Ticket> ticket_;
    const TenantSeries series_;
  };

  // Without `tenants` every call is allowed, and has no tenant. `metrics` outlive the object and
  // its passes.
  Gatekeeper(std::unique_ptr<TenantFile> tenants, RouterMetrics& metrics)
      : tenants_(std::move(tenants)), metrics_(metrics) {}

  bool asks_for_keys() const { return tenants_ != nullptr; }

  // The tenant whose key an "authorization" header or metadata value holds; UNAUTHENTICATED for an
  // unknown key. Null when no keys are asked for.
  absl::StatusOr<std::shared_ptr<const Tenant>> Identify(std::string_view authorization) const;

  // RESOURCE_EXHAUSTED naming the limit, with a hint when to come back
  // (router/serving/validation/retry_hint.h). Null without a tenant: then there are no limits.
  absl::StatusOr<std::unique_ptr<Pass>> Admit(const Tenant* tenant, Instant now);
  // The refusal that Admit would give now, if any, counted as one. So a request that is going to be
  // refused costs nothing more; one that is not must be admitted all the same.
  absl::Status Check(const Tenant* tenant, Instant now);

 private:
  TenantSeries SeriesOf(const std::string& name);

  const std::unique_ptr<TenantFile> tenants_;
  RouterMetrics& metrics_;
  TenantLimiter limiter_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, TenantSeries> series_ ABSL_GUARDED_BY(mutex_);
};

// Request ids and cache salts are a tenant's own: the same id of two tenants names two requests.
// Without a tenant the id stays as it is.
std::string ScopedRequestId(const Tenant* tenant, std::string_view id);
// Sets the tenant's fairness id, weight and cache salt, whatever the request itself says.
void Attribute(const Tenant* tenant, Request& request);

}  // namespace lockstep::router
