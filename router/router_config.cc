#include "router/router_config.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/net/address.h"
#include "common/net/unix_socket.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/workers/link/orphan_watch.h"
#include "router/workers/shard.h"
#include "router/workers/worker_discovery.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxWorkers = 1024;

// Parses a fingerprint as logs and errors print it; nullopt if it is none.
std::optional<uint64_t> ParseFingerprint(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

WorkerClientConfig RouterConfig::WorkerConfigOf(const std::string& address, uint32_t index) const {
  WorkerClientConfig config = worker;
  config.address = address;
  config.index = index;
  const Shard self = ParseShard(shard).value_or(Shard());
  config.shard_rank = ShardRank(self, address);
  if (self.count > 1) {
    const absl::Duration longest = LongestSharedPause(config.orphan_wait);
    config.max_backoff = std::min(config.max_backoff, longest);
    config.max_lease_backoff = std::min(config.max_lease_backoff, longest);
  }
  return config;
}

std::vector<WorkerClientConfig> RouterConfig::WorkerConfigs() const {
  std::vector<std::string> addresses;
  for (const std::string& address : workers) {
    if (!IsWorkerName(address)) addresses.push_back(address);
  }
  const std::vector<uint32_t> ranks =
      EvenShardRanks(ParseShard(shard).value_or(Shard()), addresses);
  std::vector<WorkerClientConfig> configs;
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    configs.push_back(WorkerConfigOf(addresses[i], i));
    configs.back().shard_rank = ranks[i];
  }
  return configs;
}

bool RouterConfig::NamesWorkers() const { return std::ranges::any_of(workers, IsWorkerName); }

uint64_t RouterConfig::MaxConnectionsWith(uint64_t num_descriptors) const {
  constexpr uint64_t kPerWorker = 4;
  constexpr uint64_t kPerRenderer = 2;  // while it starts
  constexpr uint64_t kElse = 256;
  const uint64_t num_renderers = templates.max_processes + templates.spare_processes;
  const uint64_t others = kElse + kPerWorker * workers.size() + kPerRenderer * num_renderers;
  return num_descriptors > 2 * others ? num_descriptors - others : num_descriptors / 2;
}

AgreementConfig RouterConfig::Agreement() const {
  return {.weights_fingerprint = ParseFingerprint(weights_fingerprint),
          .allow_mixed = allow_mixed_workers};
}

absl::Status RouterConfig::Validate() const {
  Violations violations;
  const auto check_exposure = [&](std::string_view where, const std::string& text, bool guarded,
                                  std::string_view guard, std::string_view flag = "--insecure") {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (address.ok() && !insecure && !guarded && !IsLoopback(*address)) {
      violations.Add(fmt::format("{}{} {}; pass {} to allow it", where, text, guard, flag));
    }
  };
  constexpr std::string_view kPublicGuard =
      "can be reached from other machines, which needs --tls-cert and --tls-key, and --tenants or "
      "--tls-client-ca";
  const auto guards_public = [this](const TlsFiles& tls) {
    return tls.enabled() && (!server.tenants_path.empty() || !tls.client_ca_path.empty());
  };
  violations.Require(!model.empty(), "model: expected a model folder or a GGUF file");
  check_exposure("listen: ", server.listen, guards_public(server.tls), kPublicGuard);
  if (!server.http.listen.empty()) {
    check_exposure("http_listen: ", server.http.listen, guards_public(server.tls), kPublicGuard);
  }
  violations.Require(!workers.empty() && workers.size() <= kMaxWorkers,
                     "worker: expected 1 to 1024 addresses");
  violations.Require(
      worker_resolve_interval > absl::ZeroDuration() && worker_resolve_interval <= absl::Hours(1),
      "worker_resolve_interval: must be positive and at most 1h");
  for (ptrdiff_t i = 0; i < std::ssize(workers); ++i) {
    if (std::find(workers.begin(), workers.begin() + i, workers[i]) != workers.begin() + i) {
      violations.Add(fmt::format("worker: {} comes twice", workers[i]));
    }
    if (IsUnixAddress(workers[i])) {
      violations.Merge(ParseUnixAddress(workers[i]).status(), "worker: ");
      violations.Require(!worker.tls.enabled(), "worker: a unix socket takes no TLS");
      continue;
    }
    const bool is_name = IsWorkerName(workers[i]);
    const absl::StatusOr<Address> address =
        is_name ? ParseWorkerName(workers[i]) : ParseAddress(workers[i]);
    violations.Merge(address.status(), "worker: ");
    check_exposure("worker: ", address.ok() ? FormatAddress(*address) : "", worker.tls.enabled(),
                   "is not this machine, which needs --worker-tls-ca");
  }
  violations.Merge(ParseShard(shard).status(), "shard: ");
  violations.Require(
      weights_fingerprint.empty() || ParseFingerprint(weights_fingerprint).has_value(),
      "weights_fingerprint: expected 16 hexadecimal digits");
  if (tracing.enabled()) {
    check_exposure("otlp_endpoint: ", tracing.endpoint, tracing.tls.enabled(),
                   "is not this machine, which needs --otlp-tls-ca");
  }
  violations.Merge(tracing.Validate());
  check_exposure("admin_listen: ", admin_listen, insecure_admin,
                 "can be reached from other machines, and has neither TLS nor keys",
                 "--insecure-admin");
  violations.Merge(ParseAddress(admin_listen).status(), "admin_listen: ");
  violations.Require(priority_ageing > absl::ZeroDuration() && priority_ageing <= absl::Hours(24),
                     "priority_ageing: must be positive and at most 24h");
  violations.Require(drain_timeout >= absl::ZeroDuration() && drain_timeout <= absl::Hours(24),
                     "drain_timeout: must be from 0 to 24h");
  violations.Merge(server.Validate());
  violations.Merge(templates.Validate());
  violations.Require(ParsePlacementPolicy(placement).has_value(),
                     "placement: expected prefix, least-loaded or round-robin");
  violations.Merge(WorkerConfigOf("127.0.0.1:1", 0).Validate());
  return violations.ToStatus();
}

}  // namespace lockstep::router
