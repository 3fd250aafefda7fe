#include "router/router_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "common/net/address.h"
#include "common/net/listen_check.h"
#include "common/program_path.h"
#include "common/runtime/descriptor_limit.h"
#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "router/engine/vllm_metrics.h"
#include "router/templates/renderer_metrics.h"
#include "router/workers/link/grpc_step_link.h"
#include "router/workers/shard.h"

namespace lockstep::router {
namespace {

// A thread of connections or of workers does its work in milliseconds and never waits. If it takes
// no work for this long, it is stuck.
constexpr absl::Duration kStalledAfter = absl::Seconds(30);

HealthReport Health(RouterServer& server) {
  Engine& engine = server.engine();
  if (engine.draining()) return {.ok = false, .text = "draining"};
  if (!server.api().accepting()) {
    return {.ok = false, .text = "no descriptors are left for connections"};
  }
  return {.ok = engine.ready(), .text = "worker " + engine.replica_status().worker_text};
}

HealthReport Liveness(StallWatch& stalls) {
  const std::string stalled = stalls.Look(MonotonicNow());
  if (stalled.empty()) return {.ok = true, .text = "alive"};
  return {.ok = false,
          .text = fmt::format("no work taken for {} by {}", absl::FormatDuration(kStalledAfter),
                              stalled)};
}

ReplicaParts MakeReplica(const RouterConfig& config, const GrpcLoops& loops,
                         const WorkerClientConfig& worker) {
  return {.worker = worker.address,
          .link = std::make_unique<GrpcStepLink>(worker, loops.Of(worker.index)),
          .policy = MakePriorityPolicy(config.priority_ageing),
          .runner = loops.Of(worker.index),
          .agreement = worker.agreement,
          .owner = worker.shard_rank == 0 ? WorkerOwner::kSelf : WorkerOwner::kOther};
}

std::vector<ReplicaParts> MakeReplicas(const RouterConfig& config, const GrpcLoops& loops) {
  std::vector<ReplicaParts> replicas;
  for (const WorkerClientConfig& worker : config.WorkerConfigs()) {
    replicas.push_back(MakeReplica(config, loops, worker));
  }
  return replicas;
}

// Null if no worker is given by name.
std::unique_ptr<WorkerDiscovery> StartDiscovery(const RouterConfig& config, const GrpcLoops& loops,
                                                NameResolver& resolver, Engine& engine) {
  if (!config.NamesWorkers()) return nullptr;
  const auto make = [&config, &loops](const std::string& worker, uint32_t index) {
    return MakeReplica(config, loops, config.WorkerConfigOf(worker, index));
  };
  return std::make_unique<WorkerDiscovery>(
      config.workers, config.worker_resolve_interval, &resolver,
      [&engine, make](const std::vector<std::string>& workers) {
        engine.SetWorkers(workers, make);
      });
}

// Every connection takes a descriptor.
void FitConnections(RouterConfig& config, uint64_t num_descriptors) {
  uint32_t& max_connections = config.server.front.max_connections;
  const uint64_t most = config.MaxConnectionsWith(num_descriptors);
  if (max_connections <= most) return;
  spdlog::warn("max_connections: {} instead of {}, as the process may open {} descriptors", most,
               max_connections, num_descriptors);
  max_connections = static_cast<uint32_t>(most);
}

// Sets `caged` if the model has a chat template.
absl::StatusOr<ServedModel> LoadModel(const RouterConfig& config, const CagedTemplate*& caged) {
  RendererPoolConfig pool = config.RendererConfig();
  LOCKSTEP_ASSIGN_OR_RETURN(pool.program, PathBesideProgram("lockstep-template-renderer"));
  const auto load =
      [&](const TemplateSource& source) -> absl::StatusOr<std::unique_ptr<const ChatTemplate>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<const CagedTemplate> loaded,
                              CagedTemplate::Start(pool, source));
    caged = loaded.get();
    return loaded;
  };
  LOCKSTEP_ASSIGN_OR_RETURN(ServedModel model,
                            ServedModel::Load(config.model, config.model_id, load));
  model.aliases = config.model_aliases;
  return model;
}

}  // namespace

absl::Status CheckAddressesAreFree(const RouterConfig& config) {
  for (const std::string& listener : config.server.front.listeners) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(listener), "--listen"));
  }
  if (!config.http_listen.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(config.http_listen), "--http-listen"));
  }
  return Annotate(CheckCanListen(config.admin_listen), "--admin-listen");
}

RouterProcess::RouterProcess(RouterConfig config, ServedModel model, const CagedTemplate* caged)
    : config_(std::move(config)),
      model_(std::move(model)),
      metrics_(*registry_, model_.id),
      span_metrics_(*registry_, model_.id),
      constraint_metrics_(*registry_, model_.id),
      tracing_(Tracing::Start(config_.tracing, span_metrics_, model_.id, clock_)),
      loops_(std::make_shared<GrpcLoops>(config_.server.num_grpc_threads)),
      stalls_(kStalledAfter) {
  metrics_.SetShard(ParseShard(config_.shard).value_or(Shard()));
  const RendererMetrics renderer_metrics(*registry_, model_.id);
  if (caged == nullptr) return;
  caged->pool().Watch([renderer_metrics](RendererEnd end) { renderer_metrics.Count(end); });
}

absl::StatusOr<std::unique_ptr<RouterProcess>> RouterProcess::Start(RouterConfig config) {
  FitConnections(config, RaiseDescriptorLimit());
  const CagedTemplate* caged = nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(ServedModel model, LoadModel(config, caged));
  LOCKSTEP_RETURN_IF_ERROR(model.SetOutputFormat(config.tool_format));
  for (const std::string& warning : model.config.warnings) spdlog::warn("{}", warning);
  spdlog::info("end ids: {}", fmt::join(model.config.eos_token_ids, ", "));
  spdlog::info("tool format: {}",
               model.output_format == nullptr ? "none" : NameOf(*model.output_format));
  config.worker.expected = model.expected();
  config.worker.agreement = std::make_shared<WorkerAgreement>(config.Agreement());
  std::unique_ptr<RouterProcess> process(
      new RouterProcess(std::move(config), std::move(model), caged));
  LOCKSTEP_RETURN_IF_ERROR(process->StartConstraints());
  LOCKSTEP_RETURN_IF_ERROR(process->Listen());
  return process;
}

absl::Status RouterProcess::StartConstraints() {
  ConstraintCheckerConfig checker = {.engine = config_.constraints};
  LOCKSTEP_ASSIGN_OR_RETURN(checker.engine.program,
                            PathBesideProgram("lockstep-constraint-engine"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      checker.engine.packages,
      FindConstraintPackages(config_.constraint_packages, checker.engine.program));
  if (checker.engine.packages.empty()) {
    spdlog::info("constraints are refused: no llguidance");
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<VocabularyToken> vocabulary,
                            LoadVocabulary(config_.model, model_.config.vocab_size));
  absl::StatusOr<std::unique_ptr<ConstraintChecker>> started =
      ConstraintChecker::Start(checker, std::move(vocabulary), constraint_metrics_);
  if (!started.ok()) {
    // If the operator named a folder, the program must not start without constraints.
    if (config_.constraint_packages != "auto") return started.status();
    spdlog::warn("constraints are refused: {}", Message(started.status()));
    return absl::OkStatus();
  }
  constraints_ = *std::move(started);
  spdlog::info("constraints are enforced by {}", constraints_->version());
  return absl::OkStatus();
}

absl::Status RouterProcess::Listen() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      server_,
      RouterServer::Start(config_.ServerConfig(), {.serving = {.model = model_,
                                                               .metrics = metrics_,
                                                               .clock = clock_,
                                                               .tracer = tracing_.tracer.get(),
                                                               .constraints = constraints_.get()},
                                                   .replicas = MakeReplicas(config_, *loops_),
                                                   .loops = loops_,
                                                   .registry = *registry_}));
  exporter_ = tracing_.Export(config_.tracing, span_metrics_);
  discovery_ = StartDiscovery(config_, *loops_, resolver_, server_->engine());
  fleet_status_ = std::make_unique<StatusJson>(server_->api());
  server_->WatchThreads(stalls_);
  LOCKSTEP_ASSIGN_OR_RETURN(
      admin_, AdminServer::Start(config_.admin_listen,
                                 {.metrics = std::make_shared<VllmMetrics>(*registry_),
                                  .health = [this] { return Health(*server_); },
                                  .liveness = [this] { return Liveness(stalls_); },
                                  .status = [this] { return fleet_status_->OfFleet(); }}));
  return absl::OkStatus();
}

std::string RouterProcess::ListeningLine() const {
  const std::vector<Address>& addresses = server_->addresses();
  std::string further;
  for (size_t i = 1; i < addresses.size(); ++i) {
    further += fmt::format("{}{}", i == 1 ? " http=" : ",", FormatAddress(addresses[i]));
  }
  return fmt::format("LISTENING grpc={} admin={}{}", FormatAddress(addresses.front()),
                     FormatAddress(admin_->address()), further);
}

void RouterProcess::Drain() {
  spdlog::info("draining for at most {}", absl::FormatDuration(config_.drain_timeout));
  if (!server_->Drain(config_.drain_timeout)) {
    spdlog::warn("requests were cut off by the end of the drain");
  }
}

}  // namespace lockstep::router
