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
#include "router/calls/output_format.h"
#include "router/serving/validation/request_validator.h"
#include "router/workers/link/orphan_watch.h"
#include "router/workers/shard.h"
#include "router/workers/worker_discovery.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxWorkers = 1024;
constexpr size_t kMaxAliases = 64;

// Reads a fingerprint as logs and errors print it.
std::optional<uint64_t> ParseFingerprint(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Refuses addresses that other machines can reach, unless they are guarded or a flag allows them.
class ExposureCheck {
 public:
  ExposureCheck(const RouterConfig& config, Violations& violations)
      : config_(config), violations_(violations) {}

  void OfListeners() {
    const TlsFiles& tls = config_.server.front.tls;
    const bool guarded =
        tls.enabled() && (!config_.server.tenants_path.empty() || !tls.client_ca_path.empty());
    constexpr std::string_view kGuard =
        "can be reached from other machines, which needs --tls-cert and --tls-key, and --tenants "
        "or --tls-client-ca";
    for (const std::string& listener : config_.server.front.listeners) {
      Check("listen", listener, guarded, kGuard);
    }
    Check("http_listen", config_.http_listen, guarded, kGuard);
  }
  void OfWorker(const Address& address) {
    Check("worker", FormatAddress(address), config_.worker.tls.enabled(),
          "is not this machine, which needs --worker-tls-ca");
  }
  void OfCollector() {
    Check("otlp_endpoint", config_.tracing.endpoint, config_.tracing.tls.enabled(),
          "is not this machine, which needs --otlp-tls-ca");
  }
  void OfAdminPort() {
    Check("admin_listen", config_.admin_listen, config_.insecure_admin,
          "can be reached from other machines, and has neither TLS nor keys", "--insecure-admin");
  }

 private:
  // Other checks refuse a text that is no address.
  void Check(std::string_view field, const std::string& text, bool guarded, std::string_view guard,
             std::string_view flag = "--insecure") {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok() || config_.insecure || guarded || IsLoopback(*address)) return;
    violations_.Add(fmt::format("{}: {} {}; pass {} to allow it", field, text, guard, flag));
  }

  const RouterConfig& config_;
  Violations& violations_;
};

void CheckWorker(const RouterConfig& config, const std::string& worker, ExposureCheck& exposure,
                 Violations& violations) {
  if (IsUnixAddress(worker)) {
    violations.Merge(ParseUnixAddress(worker).status(), "worker: ");
    violations.Require(!config.worker.tls.enabled(), "worker: a unix socket takes no TLS");
    return;
  }
  const absl::StatusOr<Address> address =
      IsWorkerName(worker) ? ParseWorkerName(worker) : ParseAddress(worker);
  violations.Merge(address.status(), "worker: ");
  if (address.ok()) exposure.OfWorker(*address);
}

void CheckWorkers(const RouterConfig& config, ExposureCheck& exposure, Violations& violations) {
  const std::vector<std::string>& workers = config.workers;
  violations.Require(!workers.empty() && workers.size() <= kMaxWorkers,
                     "worker: expected 1 to 1024 addresses");
  violations.Require(config.worker_resolve_interval > absl::ZeroDuration() &&
                         config.worker_resolve_interval <= absl::Hours(1),
                     "worker_resolve_interval: must be positive and at most 1h");
  for (auto worker = workers.begin(); worker != workers.end(); ++worker) {
    if (std::find(workers.begin(), worker, *worker) != worker) {
      violations.Add(fmt::format("worker: {} comes twice", *worker));
    }
    CheckWorker(config, *worker, exposure, violations);
  }
  violations.Merge(ParseShard(config.shard).status(), "shard: ");
  violations.Require(config.weights_fingerprint.empty() ||
                         ParseFingerprint(config.weights_fingerprint).has_value(),
                     "weights_fingerprint: expected 16 hexadecimal digits");
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
  const uint64_t num_renderers = server.num_encode_threads + templates.spare_processes;
  const uint64_t others = kElse + kPerWorker * workers.size() + kPerRenderer * num_renderers;
  return num_descriptors > 2 * others ? num_descriptors - others : num_descriptors / 2;
}

AgreementConfig RouterConfig::Agreement() const {
  return {.weights_fingerprint = ParseFingerprint(weights_fingerprint),
          .allow_mixed = server.api.mixed_workers};
}

RouterServerConfig RouterConfig::ServerConfig() const {
  RouterServerConfig config = server;
  if (!http_listen.empty()) config.front.listeners.push_back(http_listen);
  // Validate refuses a name that is no policy.
  config.engine.placement.policy =
      ParsePlacementPolicy(placement).value_or(PlacementPolicy::kPrefixAware);
  // Admission counts before the scheduler does; its own bound is the same.
  const AdmissionLimits& admission = config.engine.admission;
  SchedulerConfig& scheduler = config.engine.replica.scheduler;
  scheduler.max_waiting_requests = admission.max_waiting_requests;
  scheduler.max_waiting_tokens = admission.max_waiting_tokens;
  return config;
}

RendererPoolConfig RouterConfig::RendererConfig() const {
  RendererPoolConfig config = templates;
  config.max_processes = server.num_encode_threads;
  return config;
}

absl::Status RouterConfig::Validate() const {
  Violations violations;
  ExposureCheck exposure(*this, violations);
  violations.Require(!model.empty(), "model: expected a model folder or a GGUF file");
  for (const std::string& alias : model_aliases) {
    violations.Require(!alias.empty() && alias.size() <= kMaxIdBytes,
                       "model_alias: expected 1 to 256 bytes");
  }
  violations.Require(model_aliases.size() <= kMaxAliases, "model_alias: expected at most 64 names");
  exposure.OfListeners();
  CheckWorkers(*this, exposure, violations);
  exposure.OfCollector();
  violations.Merge(tracing.Validate());
  exposure.OfAdminPort();
  violations.Merge(ParseAddress(admin_listen).status(), "admin_listen: ");
  violations.Require(priority_ageing > absl::ZeroDuration() && priority_ageing <= absl::Hours(24),
                     "priority_ageing: must be positive and at most 24h");
  violations.Require(drain_timeout >= absl::ZeroDuration() && drain_timeout <= absl::Hours(24),
                     "drain_timeout: must be from 0 to 24h");
  if (!http_listen.empty()) {
    violations.Merge(ParseAddress(http_listen).status(), "http_listen: ");
  }
  violations.Merge(server.Validate());
  violations.Merge(templates.Validate());
  if (tool_format != "auto" && tool_format != "none") {
    violations.Merge(FindOutputFormat(tool_format).status(), "tool_format: ");
  }
  violations.Merge(constraints.Validate());
  violations.Require(ParsePlacementPolicy(placement).has_value(),
                     "placement: expected prefix, least-loaded or round-robin");
  violations.Merge(WorkerConfigOf("127.0.0.1:1", 0).Validate());
  return violations.ToStatus();
}

}  // namespace lockstep::router
