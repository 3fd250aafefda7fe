#include "router/serving/calls/gatekeeper.h"

#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/serving/validation/retry_hint.h"

namespace lockstep::router {
namespace {

// Does not occur in names of tenants and groups. So two different pairs never give the same text.
constexpr char kEndOfName = '\n';

}  // namespace

Gatekeeper::Permit::Permit(std::unique_ptr<TenantLimiter::Ticket> ticket,
                           const TenantSeries& series)
    : ticket_(std::move(ticket)), series_(series) {
  series_.open_requests->Increment();
}

Gatekeeper::Permit::~Permit() { series_.open_requests->Decrement(); }

void Gatekeeper::Permit::ChargePrompt(size_t num_tokens) const {
  ticket_->Charge(static_cast<double>(num_tokens));
  series_.prompt_tokens_total->Increment(static_cast<double>(num_tokens));
}

void Gatekeeper::Permit::ChargeOutput(size_t num_tokens) const {
  if (num_tokens == 0) return;
  ticket_->Charge(static_cast<double>(num_tokens));
  series_.generation_tokens_total->Increment(static_cast<double>(num_tokens));
}

absl::StatusOr<std::shared_ptr<const Tenant>> Gatekeeper::Identify(std::string_view authorization,
                                                                   std::string_view api_key) const {
  if (!asks_for_keys()) return nullptr;
  std::string_view key = BearerKey(authorization);
  if (!api_key.empty()) {
    if (!authorization.empty() && key != api_key) {
      return absl::UnauthenticatedError("authorization and x-api-key have different keys");
    }
    key = api_key;
  }
  if (key.empty()) {
    return absl::UnauthenticatedError("an API key is needed: authorization: Bearer KEY");
  }
  std::shared_ptr<const Tenant> tenant = tenants_->current()->FindByKey(key);
  if (tenant == nullptr) return absl::UnauthenticatedError("this API key is nobody's");
  return tenant;
}

absl::StatusOr<std::unique_ptr<Gatekeeper::Permit>> Gatekeeper::Admit(const Tenant* tenant,
                                                                      Instant now) {
  if (tenant == nullptr) return nullptr;
  const TenantSeries series = SeriesOf(tenant->name);
  series.requests_total->Increment();
  TenantLimiter::Admission admission = limiter_.Admit(*tenant, now);
  if (admission.ticket == nullptr) {
    series.requests_rejected_total->Increment();
    return WithRetryAfter(admission.refusal, admission.retry_after);
  }
  return std::make_unique<Permit>(std::move(admission.ticket), series);
}

absl::Status Gatekeeper::Check(const Tenant* tenant, Instant now) {
  if (tenant == nullptr) return absl::OkStatus();
  const TenantLimiter::Admission admission = limiter_.Check(*tenant, now);
  if (admission.refusal.ok()) return absl::OkStatus();
  const TenantSeries series = SeriesOf(tenant->name);
  series.requests_total->Increment();
  series.requests_rejected_total->Increment();
  return WithRetryAfter(admission.refusal, admission.retry_after);
}

TenantSeries Gatekeeper::SeriesOf(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = series_.find(name);
  if (found != series_.end()) return found->second;
  return series_.emplace(name, metrics_.ForTenant(name)).first->second;
}

std::string ScopedRequestId(const Tenant* tenant, std::string_view id) {
  if (tenant == nullptr) return std::string(id);
  return fmt::format("{}{}{}", tenant->name, kEndOfName, id);
}

void Attribute(const Tenant* tenant, Request& request) {
  if (tenant == nullptr) return;
  request.tenant = tenant->name;
  request.tenant_weight = tenant->weight;
  std::string& salt = request.prefix_root.salt;
  salt = fmt::format("{}{}{}", tenant->cache_group, kEndOfName, salt);
}

}  // namespace lockstep::router
