// lockstep-router: takes requests, schedules them, and drives workers.
#include <absl/flags/flag.h>
#include <google/protobuf/stubs/logging.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/command_line.h"
#include "common/net/admin_server.h"
#include "common/net/listen_check.h"
#include "common/runtime/clock.h"
#include "common/runtime/descriptor_limit.h"
#include "common/runtime/exit_code.h"
#include "common/runtime/heap.h"
#include "common/runtime/logging.h"
#include "common/runtime/shutdown_signal.h"
#include "common/status.h"
#include "common/strands/stall_watch.h"
#include "common/version.h"
#include "router/core/policy/priority_policy.h"
#include "router/engine/router_metrics.h"
#include "router/engine/vllm_metrics.h"
#include "router/http/routes/status_json.h"
#include "router/router_config.h"
#include "router/router_server.h"
#include "router/serving/prompts/served_model.h"
#include "router/templates/renderer_metrics.h"
#include "router/templates/renderer_pool.h"
#include "router/tracing/span_metrics.h"
#include "router/tracing/tracing.h"
#include "router/workers/link/grpc_step_link.h"
#include "router/workers/shard.h"
#include "router/workers/worker_discovery.h"

using lockstep::router::RouterConfig;

namespace {

const RouterConfig& Defaults() {
  static const RouterConfig defaults;
  return defaults;
}

}  // namespace

ABSL_FLAG(std::string, model, "", "model folder or GGUF file, for tokenizer, template and limits");
ABSL_FLAG(std::string, model_id, "",
          "the name that clients use; default: the file's or folder's name");
ABSL_FLAG(
    std::vector<std::string>, worker, Defaults().workers,
    "host:port or unix:PATH of every worker, or dns:///name:port of many, separated by commas");
ABSL_FLAG(absl::Duration, worker_resolve_interval, Defaults().worker_resolve_interval,
          "how often the names of workers are resolved again");
ABSL_FLAG(std::string, shard, Defaults().shard,
          "I/N: this is router I of N that share the workers; empty: it is the only one");
ABSL_FLAG(absl::Duration, shard_takeover_wait, Defaults().worker.orphan_wait,
          "a worker of another router is taken over after so long without a lease");
ABSL_FLAG(std::string, weights_fingerprint, Defaults().weights_fingerprint,
          "the weights that every worker must have, as 16 hexadecimal digits; empty: those of the "
          "first one that is ready");
ABSL_FLAG(bool, allow_mixed_workers, Defaults().allow_mixed_workers,
          "allow workers with other weights and other numerics beside each other");
ABSL_FLAG(std::string, placement, Defaults().placement,
          "how requests find a worker: prefix, least-loaded or round-robin");
ABSL_FLAG(
    double, max_imbalance, Defaults().server.engine.placement.max_imbalance,
    "with --placement=prefix: a worker with more than so many times the mean load gets no request");
ABSL_FLAG(std::string, listen, Defaults().server.listen,
          "host:port of the public API: gRPC and HTTP; port 0: any");
ABSL_FLAG(std::string, http_listen, Defaults().server.http.listen,
          "a second host:port of the same; empty: none");
ABSL_FLAG(std::vector<std::string>, cors_origins, Defaults().server.http.cors_origins,
          "origins whose web pages may use the HTTP API, separated by commas, or *; empty: none");
ABSL_FLAG(std::string, admin_listen, Defaults().admin_listen,
          "host:port of /metrics, /healthz, /livez and /status.json");
ABSL_FLAG(std::string, tls_cert, "", "PEM certificate of both public APIs; empty: plaintext");
ABSL_FLAG(std::string, tls_key, "", "its PEM key");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM certificates of the authorities of clients, which then need a certificate");
ABSL_FLAG(std::string, tenants, "", "file of tenants and their keys; empty: no keys are asked for");
ABSL_FLAG(std::string, worker_tls_ca, "",
          "PEM certificates of the authorities of workers; empty: plaintext");
ABSL_FLAG(std::string, worker_tls_cert, "", "PEM certificate for workers that ask for one");
ABSL_FLAG(std::string, worker_tls_key, "", "its PEM key");
ABSL_FLAG(std::string, worker_tls_server_name, "",
          "the name in the workers' certificates; empty: the host of each");
ABSL_FLAG(bool, insecure, Defaults().insecure,
          "allow addresses beyond this machine, without TLS and keys");
ABSL_FLAG(bool, insecure_admin, Defaults().insecure_admin,
          "allow an address beyond this machine for --admin-listen only");
ABSL_FLAG(bool, takeover, Defaults().worker.takeover,
          "take the workers from another router that holds them");
ABSL_FLAG(absl::Duration, priority_ageing, Defaults().priority_ageing,
          "waiting this long makes up for one level of priority");
ABSL_FLAG(uint32_t, max_waiting_requests, Defaults().server.engine.admission.max_waiting_requests,
          "requests without a slot; more are refused");
ABSL_FLAG(uint64_t, max_waiting_tokens, Defaults().server.engine.admission.max_waiting_tokens,
          "prompt tokens of requests without a slot; more are refused");
ABSL_FLAG(uint32_t, max_open_requests, Defaults().server.engine.admission.max_open_requests,
          "requests from their first byte to their last; more are refused");
ABSL_FLAG(uint64_t, max_pending_output_bytes, Defaults().server.engine.max_pending_output_bytes,
          "output that may wait for a client that reads slowly; then its request ends");
ABSL_FLAG(uint32_t, max_running_sequences,
          Defaults().server.engine.replica.scheduler.max_running_sequences, "sequences of a step");
ABSL_FLAG(uint32_t, max_steps_in_flight,
          Defaults().server.engine.replica.scheduler.max_steps_in_flight,
          "steps sent ahead of results");
ABSL_FLAG(uint32_t, max_prefill_tokens_per_step,
          Defaults().server.engine.replica.scheduler.max_prefill_tokens_per_step,
          "prompt tokens of a step; 0: as many as the worker takes");
ABSL_FLAG(uint32_t, max_decode_iterations,
          Defaults().server.engine.replica.scheduler.max_decode_iterations,
          "tokens that one step may decode per sequence while nobody waits");
ABSL_FLAG(absl::Duration, target_step_time,
          Defaults().server.engine.replica.scheduler.target_step_time,
          "steps with prompts beside decodes: half of it to 4 times it, by how much waits");
ABSL_FLAG(absl::Duration, max_time_per_token,
          Defaults().server.engine.replica.scheduler.max_time_per_token,
          "prompts wait so that running sequences keep to this; inf: only the target bounds steps");
ABSL_FLAG(absl::Duration, max_time_to_first_token,
          Defaults().server.engine.replica.scheduler.max_time_to_first_token,
          "requests that would wait longer are refused; inf: none");
ABSL_FLAG(absl::Duration, step_timeout, Defaults().server.engine.replica.step_timeout,
          "a worker that takes longer over a step is given up");
ABSL_FLAG(absl::Duration, failover_wait, Defaults().server.engine.replica.failover_wait,
          "how long requests wait for a lost worker");
ABSL_FLAG(absl::Duration, no_worker_grace, Defaults().server.engine.replica.no_worker_grace,
          "how long after the loss of a worker new requests still queue");
ABSL_FLAG(absl::Duration, default_timeout, Defaults().server.api.default_timeout,
          "deadline of requests that have none");
ABSL_FLAG(absl::Duration, retry_after, Defaults().server.api.retry_after,
          "when refused clients are told to come back");
ABSL_FLAG(bool, page, Defaults().server.api.page,
          "serve a page for people at / of the HTTP listeners");
ABSL_FLAG(bool, strict_fields, Defaults().server.api.strict_fields,
          "refuse JSON fields that the router does not know, rather than ignore them");
ABSL_FLAG(bool, parse_special, Defaults().server.api.parse_special,
          "a text prompt that spells a special token has that token, unless the request says no");
ABSL_FLAG(uint32_t, max_prompt_bytes, Defaults().server.api.limits.max_prompt_bytes,
          "bytes of a prompt's text");
ABSL_FLAG(uint32_t, max_prompt_tokens, Defaults().server.api.limits.max_prompt_tokens,
          "tokens of a prompt; 0: as the context allows");
ABSL_FLAG(uint32_t, max_samples, Defaults().server.api.limits.max_samples, "the largest n");
ABSL_FLAG(uint32_t, max_logprobs, Defaults().server.api.limits.max_logprobs,
          "log-probabilities per token; also bounded by the worker");
ABSL_FLAG(uint32_t, grpc_threads, Defaults().server.num_grpc_threads,
          "threads that poll the connections to workers and schedule their steps");
ABSL_FLAG(uint32_t, http_threads, Defaults().server.http.num_threads,
          "threads that read requests and write their answers");
ABSL_FLAG(uint32_t, encode_threads, Defaults().server.num_encode_threads,
          "threads that check and tokenize prompts");
ABSL_FLAG(std::string, template_python, Defaults().templates.python,
          "Python with Jinja2, which renders the chat template");
ABSL_FLAG(absl::Duration, template_timeout, Defaults().templates.limits.time,
          "processor time of one rendering of the chat template");
ABSL_FLAG(uint32_t, max_concurrent_streams, Defaults().server.http.max_concurrent_streams,
          "calls open on one connection");
ABSL_FLAG(uint32_t, max_connection_memory_mib, Defaults().server.max_connection_memory_mib,
          "MiB in transit on all connections of the public API");
ABSL_FLAG(uint32_t, max_connections, Defaults().server.http.max_connections,
          "open connections of the public API; one more is closed at once");
ABSL_FLAG(std::optional<uint32_t>, max_connections_per_address,
          Defaults().server.http.max_connections_per_address,
          "likewise of one address; 0: no bound of its own; default: a quarter of all");
ABSL_FLAG(absl::Duration, stalled_client_timeout, Defaults().server.api.stalled_client_timeout,
          "a client that leaves its output untaken for so long is cut off");
ABSL_FLAG(absl::Duration, drain_timeout, Defaults().drain_timeout,
          "how long SIGTERM lets running requests finish");
ABSL_FLAG(std::string, otlp_endpoint, Defaults().tracing.endpoint,
          "host:port of an OTLP collector (gRPC), for traces of requests; empty: none");
ABSL_FLAG(std::string, otlp_tls_ca, "",
          "PEM certificates of the authorities of the collector; empty: plaintext");
ABSL_FLAG(double, trace_sample_ratio, Defaults().tracing.sample_ratio,
          "share of the requests without a traceparent that are recorded, 0 to 1");
ABSL_FLAG(std::string, trace_service_name, Defaults().tracing.service_name,
          "service.name of the router in traces");
ABSL_FLAG(bool, check_config, false, "check the flags and exit");
ABSL_FLAG(std::string, log_level, "info", "trace, debug, info, warn, error or off");
ABSL_FLAG(std::string, log_format, "text", "text or json");

namespace lockstep::router {
namespace {

void SetSecurity(RouterConfig& config) {
  config.insecure = absl::GetFlag(FLAGS_insecure);
  config.insecure_admin = absl::GetFlag(FLAGS_insecure_admin);
  config.server.tls = {.cert_path = absl::GetFlag(FLAGS_tls_cert),
                       .key_path = absl::GetFlag(FLAGS_tls_key),
                       .client_ca_path = absl::GetFlag(FLAGS_tls_client_ca)};
  config.server.tenants_path = absl::GetFlag(FLAGS_tenants);
  config.worker.tls = {.ca_path = absl::GetFlag(FLAGS_worker_tls_ca),
                       .cert_path = absl::GetFlag(FLAGS_worker_tls_cert),
                       .key_path = absl::GetFlag(FLAGS_worker_tls_key),
                       .server_name = absl::GetFlag(FLAGS_worker_tls_server_name)};
}

void SetFront(PublicServerConfig& config) {
  config.listen = absl::GetFlag(FLAGS_http_listen);
  config.cors_origins = absl::GetFlag(FLAGS_cors_origins);
  config.num_threads = absl::GetFlag(FLAGS_http_threads);
  config.max_connections = absl::GetFlag(FLAGS_max_connections);
  config.max_connections_per_address = absl::GetFlag(FLAGS_max_connections_per_address);
  config.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
}

void SetTracing(TracingConfig& config) {
  config.endpoint = absl::GetFlag(FLAGS_otlp_endpoint);
  config.tls.ca_path = absl::GetFlag(FLAGS_otlp_tls_ca);
  config.sample_ratio = absl::GetFlag(FLAGS_trace_sample_ratio);
  config.service_name = absl::GetFlag(FLAGS_trace_service_name);
}

RouterConfig ConfigFromFlags() {
  RouterConfig config;
  config.model = absl::GetFlag(FLAGS_model);
  config.model_id = absl::GetFlag(FLAGS_model_id);
  config.admin_listen = absl::GetFlag(FLAGS_admin_listen);
  SetSecurity(config);
  SetTracing(config.tracing);
  config.priority_ageing = absl::GetFlag(FLAGS_priority_ageing);
  config.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  config.workers = absl::GetFlag(FLAGS_worker);
  config.worker_resolve_interval = absl::GetFlag(FLAGS_worker_resolve_interval);
  config.weights_fingerprint = absl::GetFlag(FLAGS_weights_fingerprint);
  config.allow_mixed_workers = absl::GetFlag(FLAGS_allow_mixed_workers);
  config.server.api.mixed_workers = config.allow_mixed_workers;
  config.shard = absl::GetFlag(FLAGS_shard);
  config.worker.orphan_wait = absl::GetFlag(FLAGS_shard_takeover_wait);
  config.worker.takeover = absl::GetFlag(FLAGS_takeover);

  config.server.listen = absl::GetFlag(FLAGS_listen);
  config.server.num_grpc_threads = absl::GetFlag(FLAGS_grpc_threads);
  config.server.num_encode_threads = absl::GetFlag(FLAGS_encode_threads);
  config.templates.max_processes = config.server.num_encode_threads;
  config.templates.python = absl::GetFlag(FLAGS_template_python);
  config.templates.limits.time = absl::GetFlag(FLAGS_template_timeout);
  config.server.max_connection_memory_mib = absl::GetFlag(FLAGS_max_connection_memory_mib);
  SetFront(config.server.http);
  EngineConfig& engine = config.server.engine;
  config.placement = absl::GetFlag(FLAGS_placement);
  // A name that is none ends in Validate.
  engine.placement.policy =
      ParsePlacementPolicy(config.placement).value_or(PlacementPolicy::kPrefixAware);
  engine.placement.max_imbalance = absl::GetFlag(FLAGS_max_imbalance);
  engine.admission.max_waiting_requests = absl::GetFlag(FLAGS_max_waiting_requests);
  engine.admission.max_waiting_tokens = absl::GetFlag(FLAGS_max_waiting_tokens);
  engine.admission.max_open_requests = absl::GetFlag(FLAGS_max_open_requests);
  engine.max_pending_output_bytes = absl::GetFlag(FLAGS_max_pending_output_bytes);
  engine.replica.step_timeout = absl::GetFlag(FLAGS_step_timeout);
  engine.replica.failover_wait = absl::GetFlag(FLAGS_failover_wait);
  engine.replica.no_worker_grace = absl::GetFlag(FLAGS_no_worker_grace);
  SchedulerConfig& scheduler = engine.replica.scheduler;
  // Admission counts before the scheduler does; its own bound is the same.
  scheduler.max_waiting_requests = engine.admission.max_waiting_requests;
  scheduler.max_waiting_tokens = engine.admission.max_waiting_tokens;
  scheduler.max_running_sequences = absl::GetFlag(FLAGS_max_running_sequences);
  scheduler.max_steps_in_flight = absl::GetFlag(FLAGS_max_steps_in_flight);
  scheduler.max_prefill_tokens_per_step = absl::GetFlag(FLAGS_max_prefill_tokens_per_step);
  scheduler.max_decode_iterations = absl::GetFlag(FLAGS_max_decode_iterations);
  scheduler.target_step_time = absl::GetFlag(FLAGS_target_step_time);
  scheduler.max_time_per_token = absl::GetFlag(FLAGS_max_time_per_token);
  scheduler.max_time_to_first_token = absl::GetFlag(FLAGS_max_time_to_first_token);
  ApiConfig& api = config.server.api;
  api.default_timeout = absl::GetFlag(FLAGS_default_timeout);
  api.stalled_client_timeout = absl::GetFlag(FLAGS_stalled_client_timeout);
  api.retry_after = absl::GetFlag(FLAGS_retry_after);
  api.page = absl::GetFlag(FLAGS_page);
  api.strict_fields = absl::GetFlag(FLAGS_strict_fields);
  api.parse_special = absl::GetFlag(FLAGS_parse_special);
  api.limits.max_prompt_bytes = absl::GetFlag(FLAGS_max_prompt_bytes);
  api.limits.max_prompt_tokens = absl::GetFlag(FLAGS_max_prompt_tokens);
  api.limits.max_samples = absl::GetFlag(FLAGS_max_samples);
  api.limits.max_logprobs = absl::GetFlag(FLAGS_max_logprobs);
  return config;
}

HealthReport Health(RouterServer& server) {
  Engine& engine = server.engine();
  if (engine.draining()) return {.ok = false, .text = "draining"};
  if (!server.api().accepting()) {
    return {.ok = false, .text = "no descriptors are left for connections"};
  }
  return {.ok = engine.ready(), .text = "worker " + engine.replica_status().worker_text};
}

// A thread of connections or of workers does its work in milliseconds and never waits. If it takes
// no work for this long, it is stuck.
constexpr absl::Duration kStalledAfter = absl::Seconds(30);

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

// Null when there are no names to resolve.
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
void FitConnections(const RouterConfig& config, uint64_t num_descriptors,
                    PublicServerConfig& front) {
  const uint64_t most = config.MaxConnectionsWith(num_descriptors);
  if (front.max_connections <= most) return;
  spdlog::warn("max_connections: {} instead of {}, as the process may open {} descriptors", most,
               front.max_connections, num_descriptors);
  front.max_connections = static_cast<uint32_t>(most);
}

// The program that renders templates is installed beside this one.
absl::StatusOr<std::string> RendererPath() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Unavailable("/proc/self/exe: {}", error.message());
  return (self.parent_path() / "lockstep-template-renderer").string();
}

// `caged` is set if the model has a chat template.
absl::StatusOr<ServedModel> LoadModel(const RouterConfig& config, const CagedTemplate*& caged) {
  RendererPoolConfig pool = config.templates;
  LOCKSTEP_ASSIGN_OR_RETURN(pool.program, RendererPath());
  const auto load =
      [&](const TemplateSource& source) -> absl::StatusOr<std::unique_ptr<const ChatTemplate>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<const CagedTemplate> loaded,
                              CagedTemplate::Start(pool, source));
    caged = loaded.get();
    return loaded;
  };
  return ServedModel::Load(config.model, config.model_id, load);
}

// A large tokenizer takes seconds to load. An address that is taken is known before.
absl::Status CheckAddressesAreFree(const RouterConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(config.server.listen), "--listen"));
  if (!config.server.http.listen.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(config.server.http.listen), "--http-listen"));
  }
  return Annotate(CheckCanListen(config.admin_listen), "--admin-listen");
}

absl::Status Run(RouterConfig config) {
  if (absl::GetFlag(FLAGS_check_config)) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(CheckAddressesAreFree(config));
  const ShutdownSignal shutdown_signal;
  spdlog::info("lockstep-router {} ({}), model {}, workers {}", Version(), GitCommit(),
               config.model, fmt::join(config.workers, ", "));
  FitConnections(config, RaiseDescriptorLimit(), config.server.http);
  const CagedTemplate* caged = nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(const ServedModel model, LoadModel(config, caged));
  for (const std::string& warning : model.config.warnings) spdlog::warn("{}", warning);
  spdlog::info("end ids: {}", fmt::join(model.config.eos_token_ids, ", "));
  config.worker.expected = model.expected();
  config.worker.agreement = std::make_shared<WorkerAgreement>(config.Agreement());

  const RealClock clock;
  const auto registry = std::make_shared<prometheus::Registry>();
  RouterMetrics metrics(*registry, model.id);
  metrics.SetShard(ParseShard(config.shard).value_or(Shard()));
  const RendererMetrics renderer_metrics(*registry, model.id);
  if (caged != nullptr) {
    caged->pool().Watch([renderer_metrics](RendererEnd end) { renderer_metrics.Count(end); });
  }
  const SpanMetrics span_metrics(*registry, model.id);
  const Tracing tracing = Tracing::Start(config.tracing, span_metrics, model.id, clock);
  const auto loops = std::make_shared<GrpcLoops>(config.server.num_grpc_threads);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<RouterServer> server,
      RouterServer::Start(config.server, {.model = &model,
                                          .replicas = MakeReplicas(config, *loops),
                                          .metrics = &metrics,
                                          .clock = &clock,
                                          .loops = loops,
                                          .registry = registry.get(),
                                          .tracer = tracing.tracer.get()}));
  const std::unique_ptr<OtlpExporter> exporter = tracing.Export(config.tracing, span_metrics);
  SystemResolver resolver;
  const std::unique_ptr<WorkerDiscovery> discovery =
      StartDiscovery(config, *loops, resolver, server->engine());
  StatusJson fleet_status(server->api());
  StallWatch stalls(kStalledAfter);
  server->WatchThreads(stalls);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<AdminServer> admin,
      AdminServer::Start(config.admin_listen,
                         {.metrics = std::make_shared<VllmMetrics>(*registry),
                          .health = [&server] { return Health(*server); },
                          .liveness = [&stalls] { return Liveness(stalls); },
                          .status = [&fleet_status] { return fleet_status.OfFleet(); }}));
  std::printf("LISTENING grpc=%s admin=%s%s\n", FormatAddress(server->address()).c_str(),
              FormatAddress(admin->address()).c_str(),
              config.server.http.listen.empty()
                  ? ""
                  : (" http=" + FormatAddress(server->http_address())).c_str());
  std::fflush(stdout);

  shutdown_signal.Wait();
  spdlog::info("draining for at most {}", absl::FormatDuration(config.drain_timeout));
  if (!server->Drain(config.drain_timeout))
    spdlog::warn("requests were cut off by the end of the drain");
  return absl::OkStatus();
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) {
  lockstep::IgnoreBrokenPipes();
  lockstep::ReturnLargeBlocks();
  // What protobuf would print about a stranger's message is in the status that the stranger gets.
  google::protobuf::SetLogHandler(nullptr);
  absl::Status status = lockstep::CommandLine(argc, argv)
                            .Parse(
                                "lockstep-router --model PATH [--worker HOST:PORT,...] [--listen "
                                "HOST:PORT] [--admin-listen HOST:PORT]");
  const RouterConfig config = lockstep::router::ConfigFromFlags();
  status = lockstep::JoinErrors(status, config.Validate());
  if (status.ok()) {
    status = lockstep::InitLogging(absl::GetFlag(FLAGS_log_level), absl::GetFlag(FLAGS_log_format));
  }
  if (status.ok()) status = lockstep::router::Run(config);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-router: %s\n", lockstep::Message(status).c_str());
  return lockstep::ExitCodeOf(status);
}
