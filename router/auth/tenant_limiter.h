#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/auth/tenant.h"

namespace lockstep::router {

// Tokens that may be spent: filled at a rate up to a burst. May be overdrawn, because what a
// request costs is known when it has ended; until the debt is paid nothing new begins.
class TokenBucket {
 public:
  // Full at first.
  TokenBucket(double burst, Instant now) : tokens_(burst), filled_at_(now) {}

  // How long until something may begin: 0 while anything is left. rate > 0.
  absl::Duration Wait(double rate, double burst, Instant now);
  void Spend(double tokens) { tokens_ -= tokens; }

 private:
  double tokens_;
  Instant filled_at_;
};

// Holds every tenant to its limits. Safe to use from any thread. Tickets may outlive the limiter.
// Tenants are known by name, so that their limits may change between requests.
class TenantLimiter {
  struct State;

 public:
  // One open request; ends it when destroyed.
  class Ticket {
   public:
    explicit Ticket(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket();

    // Tokens of the prompt, and then those of the output as they come.
    void Charge(double tokens) const;

   private:
    const std::shared_ptr<State> state_;
  };

  struct Admission {
    std::unique_ptr<Ticket> ticket = nullptr;           // null: refused
    absl::Status refusal = absl::OkStatus();            // RESOURCE_EXHAUSTED naming the limit
    absl::Duration retry_after = absl::ZeroDuration();  // try again then; 0: unknown
  };
  Admission Admit(const Tenant& tenant, Instant now);
  // Whether it would be refused now, without a ticket; OK otherwise.
  Admission Check(const Tenant& tenant, Instant now);

 private:
  std::shared_ptr<State> StateOf(const Tenant& tenant);

  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<State>> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
