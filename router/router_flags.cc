#include "router/router_flags.h"

namespace lockstep::router {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kMaxThreads = 256;
constexpr double kMaxConnections = 1 << 20;

FlagGroup ModelFlags(RouterConfig& config) {
  return {
      "Model",
      {
          {"model", &config.model,
           "model folder or GGUF file; the router reads tokenizer, template and limits"},
          {"model-id", &config.model_id,
           "the name that clients use; empty: the file's or folder's name"},
          {"tool-format", &config.tool_format,
           "how the model writes calls of tools and reasoning: the name of a format, auto to "
           "detect it, or none"},
          {"model-alias", RepeatedText{&config.model_aliases},
           "one more name that clients may use; * takes every name; repeatable"},
          {"template-python", &config.templates.python,
           "Python with Jinja2, which renders the chat template"},
          {"template-timeout", &config.templates.limits.time,
           "processor time for one rendering of the chat template", FromTo(0.001, 10)},
          {"constraint-packages", &config.constraint_packages,
           "folder of Python packages with llguidance, which enforces JSON schemas and grammars; "
           "auto: those of a wheel or of the system; off: constraints are refused"},
          {"constraint-python", &config.constraints.python, "Python that runs llguidance"},
          {"constraint-timeout", &config.constraints.job_time,
           "processor time to compile the constraint of a request", FromTo(0.001, 60)},
      }};
}

FlagGroup WorkerFlags(RouterConfig& config) {
  PlacementConfig& placement = config.server.engine.placement;
  ReplicaConfig& replica = config.server.engine.replica;
  return {"Workers",
          {
              {"worker", &config.workers,
               "host:port or unix:PATH of every worker, or dns:///name:port for many, separated by "
               "commas"},
              {"worker-resolve-interval", &config.worker_resolve_interval,
               "how often the names of workers are resolved again", Above(0, kHour)},
              {"weights-fingerprint", &config.weights_fingerprint,
               "weights that every worker must have, as 16 hexadecimal digits; empty: those of the "
               "first ready worker"},
              {"allow-mixed-workers", &config.server.api.mixed_workers,
               "workers may differ in weights and numerics"},
              {"placement", &config.placement, "how a request finds its worker",
               OneOf({"prefix", "least-loaded", "round-robin"})},
              {"max-imbalance", &placement.max_imbalance,
               "with --placement=prefix: a worker with more than the mean load times this gets no "
               "request",
               FromTo(1, 1000)},
              {"step-timeout", &replica.step_timeout,
               "a worker that takes longer for a step is given up", Above(0)},
              {"failover-wait", &replica.failover_wait,
               "how long requests wait for another worker after the loss of theirs", AtLeast(0)},
              {"no-worker-grace", &replica.no_worker_grace,
               "how long new requests still queue after the loss of a worker", AtLeast(0)},
              {"takeover", &config.worker.takeover, "take each worker once from another router"},
              {"shard", &config.shard,
               "I/N: this is router I of N that share the workers; empty: it is the only one"},
              {"shard-takeover-wait", &config.worker.orphan_wait,
               "with --shard: how long a worker of another router has no lease before this router "
               "stands in",
               FromTo(5, kHour)},
          }};
}

FlagGroup ListenerFlags(RouterConfig& config) {
  PublicServerConfig& front = config.server.front;
  return {"Listeners and clients",
          {
              {"listen", RepeatedText{&front.listeners},
               "host:port of the public API, gRPC and HTTP; port 0 takes a free one; repeatable"},
              {"http-listen", &config.http_listen, "one more --listen"},
              {"admin-listen", &config.admin_listen,
               "host:port of /metrics, /healthz, /livez and /status.json"},
              {"cors-origins", &front.cors_origins,
               "origins whose web pages may use the HTTP API, separated by commas, or *; empty: "
               "none"},
              {"page", &config.server.api.page, "serve a page for people at /"},
              {"max-connections", &front.max_connections,
               "open connections of the public API; one more is closed at once",
               FromTo(1, kMaxConnections)},
              {"max-connections-per-address", &front.max_connections_per_address,
               "the same bound for one address; 0: none; empty: a quarter of all",
               FromTo(0, kMaxConnections)},
              {"max-concurrent-streams", &front.max_concurrent_streams,
               "calls open on one connection", FromTo(1, kMaxConnections)},
              {"max-connection-memory-mib", &front.max_connection_memory_mib,
               "MiB held for all clients: requests as they arrive, and answers until they are sent",
               FromTo(16, 1 << 20)},
              {"stalled-client-timeout", &config.server.api.stalled_client_timeout,
               "a client that takes none of its output for this long is cut off", Above(0)},
          }};
}

FlagGroup SecurityFlags(RouterConfig& config) {
  return {"Security",
          {
              {"tenants", &config.server.tenants_path,
               "file of tenants and their keys; empty: clients need no keys"},
              {"tls-cert", &config.server.front.tls.cert_path,
               "PEM certificate of the public API; empty: plaintext"},
              {"tls-key", &config.server.front.tls.key_path, "PEM key of --tls-cert"},
              {"tls-client-ca", &config.server.front.tls.client_ca_path,
               "PEM certificates of the authorities of clients, which then need a certificate"},
              {"worker-tls-ca", &config.worker.tls.ca_path,
               "PEM certificates of the authorities of workers; empty: plaintext"},
              {"worker-tls-cert", &config.worker.tls.cert_path,
               "PEM certificate for workers that ask for one"},
              {"worker-tls-key", &config.worker.tls.key_path, "PEM key of --worker-tls-cert"},
              {"worker-tls-server-name", &config.worker.tls.server_name,
               "the name in the workers' certificates; empty: the host of each worker"},
              {"insecure", &config.insecure,
               "allow addresses that other machines can reach, without TLS and keys"},
              {"insecure-admin", &config.insecure_admin,
               "allow an address that other machines can reach for --admin-listen only"},
          }};
}

FlagGroup RequestFlags(RouterConfig& config) {
  ApiConfig& api = config.server.api;
  return {
      "Requests",
      {
          {"default-timeout", &api.default_timeout, "deadline of requests that have none",
           Above(0)},
          {"retry-after", &api.retry_after, "when refused clients are told to try again",
           FromTo(0, kHour)},
          {"strict-fields", &api.strict_fields,
           "refuse unknown JSON fields, rather than ignore them"},
          {"parse-special", &api.parse_special,
           "the spelling of a special token in a text prompt is that token, unless the request "
           "says no"},
          {"max-prompt-bytes", &api.limits.max_prompt_bytes, "bytes of a prompt's text",
           FromTo(1, 1 << 30)},
          {"max-prompt-tokens", &api.limits.max_prompt_tokens,
           "tokens of a prompt; 0: as many as the context allows"},
          {"max-tools", &api.limits.max_tools, "tools of a request", FromTo(0, 4096)},
          {"max-samples", &api.limits.max_samples, "the largest n of a request", FromTo(1, 1024)},
          {"max-logprobs", &api.limits.max_logprobs,
           "log-probabilities per token; the worker bounds them too", FromTo(0, 1024)},
      }};
}

FlagGroup SchedulingFlags(RouterConfig& config) {
  EngineConfig& engine = config.server.engine;
  SchedulerConfig& scheduler = engine.replica.scheduler;
  return {
      "Scheduling",
      {
          {"priority-ageing", &config.priority_ageing,
           "waiting this long makes up for one level of priority", Above(0, 24 * kHour)},
          {"max-waiting-requests", &engine.admission.max_waiting_requests,
           "requests that have not run yet; more are refused", AtLeast(1)},
          {"max-waiting-tokens", &engine.admission.max_waiting_tokens,
           "prompt tokens of requests that have not run yet; more are refused", AtLeast(1)},
          {"max-open-requests", &engine.admission.max_open_requests,
           "requests from their first byte to their last; more are refused", AtLeast(1)},
          {"max-pending-output-bytes", &engine.max_pending_output_bytes,
           "output that may wait for a client that reads slowly; with more, its request ends",
           AtLeast(4096)},
          {"max-running-sequences", &scheduler.max_running_sequences,
           "sequences that run on a worker at once", AtLeast(1)},
          {"max-steps-in-flight", &scheduler.max_steps_in_flight, "steps sent ahead of results",
           FromTo(1, 64)},
          {"max-prefill-tokens-per-step", &scheduler.max_prefill_tokens_per_step,
           "prompt tokens of a step; 0: as many as the worker takes"},
          {"max-decode-iterations", &scheduler.max_decode_iterations,
           "tokens that one step may decode per sequence while none waits", FromTo(1, 64)},
          {"max-draft-tokens", &scheduler.max_draft_tokens,
           "tokens that a worker may draft for a sequence in one step, where drafts pay; 0: none",
           FromTo(0, kMaxDrafts)},
          {"target-step-time", &scheduler.target_step_time,
           "for steps with prompts beside decodes: half of it to 4 times it, by how much waits",
           Above(0)},
          {"max-time-per-token", &scheduler.max_time_per_token,
           "prompts wait so that running sequences keep to this; inf: only the target bounds steps",
           Above(0)},
          {"max-time-to-first-token", &scheduler.max_time_to_first_token,
           "requests that would wait longer are refused; inf: none", Above(0)},
      }};
}

FlagGroup TraceFlags(TracingConfig& config) {
  return {"Traces",
          {
              {"otlp-endpoint", &config.endpoint,
               "host:port of an OTLP collector (gRPC) for traces of requests; empty: none"},
              {"otlp-tls-ca", &config.tls.ca_path,
               "PEM certificates of the authorities of the collector; empty: plaintext"},
              {"trace-sample-ratio", &config.sample_ratio,
               "share of the requests without a traceparent that are recorded", FromTo(0, 1)},
              {"trace-service-name", &config.service_name, "service.name of the router in traces"},
          }};
}

FlagGroup ProcessFlags(RouterConfig& config) {
  return {"Process",
          {
              {"grpc-threads", &config.server.num_grpc_threads,
               "threads that poll the connections to workers and schedule their steps",
               FromTo(1, kMaxThreads)},
              {"http-threads", &config.server.front.num_threads,
               "threads that read requests and write their answers", FromTo(1, kMaxThreads)},
              {"encode-threads", &config.server.num_encode_threads,
               "threads that check and tokenize prompts", FromTo(1, kMaxThreads)},
              {"drain-timeout", &config.drain_timeout,
               "how long SIGTERM lets running requests finish", FromTo(0, 24 * kHour)},
              {"check-config", &config.check_only, "check the flags and exit"},
          }};
}

}  // namespace

FlagTable RouterFlags(RouterConfig& config) {
  return {ModelFlags(config),         WorkerFlags(config),  ListenerFlags(config),
          SecurityFlags(config),      RequestFlags(config), SchedulingFlags(config),
          TraceFlags(config.tracing), ProcessFlags(config)};
}

}  // namespace lockstep::router
