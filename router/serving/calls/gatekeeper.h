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
  // One open request of a tenant. It ends when the permit is destroyed.
  class Permit {
   public:
    Permit(std::unique_ptr<TenantLimiter::Ticket> ticket, const TenantSeries& series);
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    ~Permit();

    void ChargePrompt(size_t num_tokens) const;
    void ChargeOutput(size_t num_tokens) const;

   private:
    const std::unique_ptr<TenantLimiter::Ticket> ticket_;
    const TenantSeries series_;
  };

  // Without `tenants`, every call is allowed and has no tenant. `metrics` must outlive the object
  // and its passes.
  Gatekeeper(std::unique_ptr<TenantFile> tenants, RouterMetrics& metrics)
      : tenants_(std::move(tenants)), metrics_(metrics) {}

  bool asks_for_keys() const { return tenants_ != nullptr; }

  // Finds the tenant by the key in an "authorization" header or metadata value, or by the same key
  // as it stands in `api_key`, the header x-api-key. UNAUTHENTICATED for a missing or unknown key,
  // and if both are there and differ. Null if no keys are required.
  absl::StatusOr<std::shared_ptr<const Tenant>> Identify(std::string_view authorization,
                                                         std::string_view api_key = {}) const;

  // RESOURCE_EXHAUSTED names the limit and hints when to come back
  // (router/serving/validation/retry_hint.h). Null without a tenant, because then there are no
  // limits.
  absl::StatusOr<std::unique_ptr<Permit>> Admit(const Tenant* tenant, Instant now);
  // Returns the refusal that Admit would give now, if any, and counts it as a refusal. So a request
  // that would be refused causes no further work. A request that passes must still be admitted.
  absl::Status Check(const Tenant* tenant, Instant now);

 private:
  TenantSeries SeriesOf(const std::string& name);

  const std::unique_ptr<TenantFile> tenants_;
  RouterMetrics& metrics_;
  TenantLimiter limiter_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, TenantSeries> series_ ABSL_GUARDED_BY(mutex_);
};

// Makes a request id that belongs to one tenant. So equal ids of two tenants name two requests.
// Without a tenant the id stays as it is.
std::string ScopedRequestId(const Tenant* tenant, std::string_view id);
// Sets the tenant's fairness id, weight and cache salt. They replace what the request says.
void Attribute(const Tenant* tenant, Request& request);

}  // namespace lockstep::router
