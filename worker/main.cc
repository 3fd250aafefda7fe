// lockstep-worker: loads a model and executes the steps that a router sends.
#include <absl/flags/flag.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "common/command_line.h"
#include "common/net/admin_server.h"
#include "common/net/listen_check.h"
#include "common/runtime/descriptor_limit.h"
#include "common/runtime/exit_code.h"
#include "common/runtime/logging.h"
#include "common/runtime/shutdown_signal.h"
#include "common/status.h"
#include "common/version.h"
#include "worker/backend.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_server.h"
#include "worker/worker_config.h"

using lockstep::worker::WorkerConfig;

ABSL_FLAG(std::string, model, WorkerConfig().model,
          "GGUF file, or folder with config.json and safetensors");
ABSL_FLAG(std::string, listen, WorkerConfig().listen,
          "host:port or unix:PATH of the step service; port 0 takes a free one");
ABSL_FLAG(std::string, admin_listen, WorkerConfig().admin_listen,
          "host:port of /metrics, /healthz and /livez");
ABSL_FLAG(std::string, tls_cert, "", "PEM certificate of the step service; empty: plaintext");
ABSL_FLAG(std::string, tls_key, "", "its PEM key");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM certificates of the authorities of routers, which then need a certificate");
ABSL_FLAG(std::string, device, WorkerConfig().device,
          "cpu, cuda, or auto: CUDA where there is a device");
ABSL_FLAG(std::string, cuda_device, WorkerConfig().cuda_device,
          "index of the CUDA device, or of several that share the model, as 0,1; empty: the first");
ABSL_FLAG(uint32_t, tensor_parallel, WorkerConfig().tensor_parallel,
          "ranks that share the model, each with a GPU, or with threads of the CPU");
ABSL_FLAG(std::string, instruction_set, WorkerConfig().instruction_set,
          "portable, avx2, avx512_bf16, or auto: the best that this processor has; for the CPU");
ABSL_FLAG(std::string, load_format, WorkerConfig().load_format,
          "auto: the model's files; random: config.json alone, with seeded random weights");
ABSL_FLAG(uint64_t, random_seed, WorkerConfig().random_seed, "seed of random weights");
ABSL_FLAG(std::string, weights, WorkerConfig().weights,
          "of quantised files: packed, bf16, or auto: packed, unless bf16 is faster");
ABSL_FLAG(bool, insecure, WorkerConfig().insecure,
          "allow addresses that other machines reach, without certificates");
ABSL_FLAG(bool, insecure_admin, WorkerConfig().insecure_admin,
          "allow an address that other machines reach for --admin-listen only");
ABSL_FLAG(uint64_t, kv_cache_tokens, WorkerConfig().kv_cache_tokens,
          "size of the KV cache in tokens; 0: 32768 on the CPU, what is free on a GPU");
ABSL_FLAG(double, memory_fraction, WorkerConfig().memory_fraction,
          "share of a GPU's free memory that the KV cache takes, beside weights and workspace");
ABSL_FLAG(uint32_t, block_size, WorkerConfig().block_size_tokens, "tokens per KV block");
ABSL_FLAG(uint32_t, max_slots, WorkerConfig().max_slots,
          "sequences resident at once; 0: 256 on the CPU, 512 on a GPU");
ABSL_FLAG(uint32_t, max_step_tokens, WorkerConfig().max_step_tokens,
          "tokens of one step, over all rows; 0: 2048 on the CPU, 8192 on a GPU");
ABSL_FLAG(uint32_t, max_logits_rows, WorkerConfig().max_logits_rows,
          "rows of logits in one forward pass; 0: 256 on the CPU, 512 on a GPU");
ABSL_FLAG(uint32_t, max_logprobs, WorkerConfig().max_logprobs, "best tokens reported per position");
ABSL_FLAG(uint32_t, max_decode_iterations, WorkerConfig().max_decode_iterations,
          "decode steps in one message");
ABSL_FLAG(uint32_t, max_steps_in_flight, WorkerConfig().max_steps_in_flight,
          "steps a router may send ahead");
ABSL_FLAG(uint32_t, max_message_mib, WorkerConfig().max_message_mib, "largest message, in MiB");
ABSL_FLAG(uint32_t, threads, WorkerConfig().num_threads,
          "threads of the forward pass; 0: one per core");
ABSL_FLAG(absl::Duration, poll_window, WorkerConfig().poll_window,
          "how long the step stream is polled while steps are in flight, before its thread sleeps");
ABSL_FLAG(absl::Duration, drain_grace, WorkerConfig().drain_grace,
          "time that SIGTERM leaves running sequences");
ABSL_FLAG(std::string, log_level, "info", "trace, debug, info, warn, error or off");
ABSL_FLAG(std::string, log_format, "text", "text or json");

namespace lockstep::worker {
namespace {

WorkerConfig ConfigFromFlags() {
  WorkerConfig config;
  config.model = absl::GetFlag(FLAGS_model);
  config.listen = absl::GetFlag(FLAGS_listen);
  config.admin_listen = absl::GetFlag(FLAGS_admin_listen);
  config.device = absl::GetFlag(FLAGS_device);
  config.cuda_device = absl::GetFlag(FLAGS_cuda_device);
  config.tensor_parallel = absl::GetFlag(FLAGS_tensor_parallel);
  config.instruction_set = absl::GetFlag(FLAGS_instruction_set);
  config.load_format = absl::GetFlag(FLAGS_load_format);
  config.weights = absl::GetFlag(FLAGS_weights);
  config.random_seed = absl::GetFlag(FLAGS_random_seed);
  config.memory_fraction = absl::GetFlag(FLAGS_memory_fraction);
  config.tls = {.cert_path = absl::GetFlag(FLAGS_tls_cert),
                .key_path = absl::GetFlag(FLAGS_tls_key),
                .client_ca_path = absl::GetFlag(FLAGS_tls_client_ca)};
  config.insecure = absl::GetFlag(FLAGS_insecure);
  config.insecure_admin = absl::GetFlag(FLAGS_insecure_admin);
  config.kv_cache_tokens = absl::GetFlag(FLAGS_kv_cache_tokens);
  config.block_size_tokens = absl::GetFlag(FLAGS_block_size);
  config.max_slots = absl::GetFlag(FLAGS_max_slots);
  config.max_step_tokens = absl::GetFlag(FLAGS_max_step_tokens);
  config.max_logits_rows = absl::GetFlag(FLAGS_max_logits_rows);
  config.max_logprobs = absl::GetFlag(FLAGS_max_logprobs);
  config.max_decode_iterations = absl::GetFlag(FLAGS_max_decode_iterations);
  config.max_steps_in_flight = absl::GetFlag(FLAGS_max_steps_in_flight);
  config.max_message_mib = absl::GetFlag(FLAGS_max_message_mib);
  config.num_threads = absl::GetFlag(FLAGS_threads);
  config.poll_window = absl::GetFlag(FLAGS_poll_window);
  config.drain_grace = absl::GetFlag(FLAGS_drain_grace);
  return config;
}

// A model may take minutes to load, so occupied addresses are reported before.
absl::Status CheckAddressesAreFree(const WorkerConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(config.listen), "--listen"));
  return Annotate(CheckCanListen(config.admin_listen), "--admin-listen");
}

// New at every start; 0 means "any" in claims.
uint64_t MakeIncarnation() {
  std::random_device entropy;
  const uint64_t bits = uint64_t{entropy()} << 32 | entropy();
  return bits == 0 ? 1 : bits;
}

// Logs each stage at its start, every tenth of the way, and its end.
std::function<void(std::string_view, double)> LogProgress() {
  return [last = std::string(), last_tenth = -1](std::string_view stage, double fraction) mutable {
    const int tenth = static_cast<int>(fraction * 10);
    if (stage == last && tenth == last_tenth) return;
    last = stage;
    last_tenth = tenth;
    spdlog::info("loading {}: {} %", stage, tenth * 10);
  };
}

absl::Status Run(const WorkerConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(CheckAddressesAreFree(config));
  const ShutdownSignal shutdown_signal;
  spdlog::info("lockstep-worker {} ({}), model {}", Version(), GitCommit(), config.model);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                            OpenBackend(config, LogProgress()));
  if (shutdown_signal.received()) return absl::OkStatus();

  const auto registry = std::make_shared<prometheus::Registry>();
  WorkerMetrics metrics(*registry, backend->info());
  const uint64_t incarnation = MakeIncarnation();
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<StepRunner> runner, backend->MakeRunner(incarnation));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerServer> server,
                            WorkerServer::Start(std::move(runner), backend->info(), incarnation,
                                                metrics, config.server_options()));
  std::atomic<bool> draining = false;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<AdminServer> admin,
      AdminServer::Start(config.admin_listen, {.metrics = registry, .health = [&draining] {
                                                 return draining ? HealthReport{false, "draining"}
                                                                 : HealthReport{true, "serving"};
                                               }}));
  std::printf("LISTENING grpc=%s admin=%s\n", server->endpoint().c_str(),
              FormatAddress(admin->address()).c_str());
  std::fflush(stdout);

  shutdown_signal.Wait();
  draining = true;
  spdlog::info("draining for at most {}", absl::FormatDuration(config.drain_grace));
  if (!server->Shutdown(config.drain_grace)) spdlog::warn("the router's lease was cut off");
  return absl::OkStatus();
}

}  // namespace
}  // namespace lockstep::worker

int main(int argc, char** argv) {
  lockstep::RaiseDescriptorLimit();
  lockstep::IgnoreBrokenPipes();
  absl::Status status =
      lockstep::CommandLine(argc, argv)
          .Parse("lockstep-worker --model PATH [--listen HOST:PORT] [--admin-listen HOST:PORT]");
  const WorkerConfig config = lockstep::worker::ConfigFromFlags();
  status = lockstep::JoinErrors(status, config.Validate());
  if (status.ok()) {
    status = lockstep::InitLogging(absl::GetFlag(FLAGS_log_level), absl::GetFlag(FLAGS_log_format));
  }
  if (status.ok()) status = lockstep::worker::Run(config);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-worker: %s\n", lockstep::Message(status).c_str());
  return lockstep::ExitCodeOf(status);
}
