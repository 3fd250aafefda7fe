#include "router/workers/link/worker_client_config.h"

#include "common/net/address.h"
#include "common/net/unix_socket.h"
#include "common/step_message.h"
#include "common/violations.h"

namespace lockstep::router {
namespace {

// A living owner pauses for less between two claims: at most max_backoff after a failed attempt,
// and LongestSharedPause after a lease. So its worker never becomes an orphan.
constexpr absl::Duration kMinOrphanWait = absl::Seconds(5);

}  // namespace

absl::Status WorkerClientConfig::Validate() const {
  Violations violations;
  violations.Merge(
      IsUnixAddress(address) ? ParseUnixAddress(address).status() : ParseAddress(address).status(),
      "worker: ");
  violations.Merge(tls.Validate(), "worker_tls: ");
  violations.Require(call_timeout > absl::ZeroDuration(), "call_timeout: must be positive");
  violations.Require(keepalive_time >= absl::Seconds(10), "keepalive_time: must be at least 10s");
  violations.Require(keepalive_timeout > absl::ZeroDuration(),
                     "keepalive_timeout: must be positive");
  violations.Require(min_backoff > absl::ZeroDuration(), "min_backoff: must be positive");
  violations.Require(max_backoff >= min_backoff, "max_backoff: must not be below min_backoff");
  violations.Require(max_lease_backoff >= max_backoff,
                     "max_lease_backoff: must not be below max_backoff");
  violations.Require(stable_lease >= absl::ZeroDuration(), "stable_lease: must not be negative");
  violations.Require(orphan_wait >= kMinOrphanWait && orphan_wait <= absl::Hours(1),
                     "shard_takeover_wait: must be from 5s to 1h");
  violations.Require(max_message_bytes >= kMaxStepMessageMib << 20,
                     "max_message_bytes: must be at least {}", kMaxStepMessageMib << 20);
  return violations.ToStatus();
}

}  // namespace lockstep::router
