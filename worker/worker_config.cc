#include "worker/worker_config.h"

#include <vector>

#include "common/address.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

class Violations {
 public:
  void CheckRange(std::string_view flag, uint64_t value, uint64_t min, uint64_t max) {
    if (value >= min && value <= max) return;
    Add(flag, fmt::format("must be in [{}, {}], got {}", min, max, value));
  }
  void CheckDuration(std::string_view flag, absl::Duration value, absl::Duration max) {
    if (value >= absl::ZeroDuration() && value <= max) return;
    Add(flag, fmt::format("must be in [0, {}], got {}", absl::FormatDuration(max),
                          absl::FormatDuration(value)));
  }
  void Add(std::string_view flag, std::string_view what) {
    lines_ += fmt::format("{}--{}: {}", lines_.empty() ? "" : "\n", flag, what);
  }
  absl::Status ToStatus() const {
    return lines_.empty() ? absl::OkStatus() : InvalidArgument("{}", lines_);
  }

 private:
  std::string lines_;
};

bool IsLoopback(const Address& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.rfind("127.", 0) == 0;
}

}  // namespace

absl::Status WorkerConfig::Validate() const {
  Violations violations;
  if (model.empty()) violations.Add("model", "expected a GGUF file or a folder with config.json");
  if (const auto address = ParseAddress(listen); !address.ok()) {
    violations.Add("listen", Message(address.status()));
  } else if (!insecure && !IsLoopback(*address)) {
    violations.Add("listen",
                   fmt::format("{} is reachable from other machines and this worker has no TLS; "
                               "pass --insecure if the network is trusted",
                               listen));
  }
  if (const auto address = ParseAddress(admin_listen); !address.ok()) {
    violations.Add("admin-listen", Message(address.status()));
  }
  // Two blocks are the least that a pool can work with; ids are 32 bits wide.
  violations.CheckRange("kv-cache-tokens", kv_cache_tokens, 2 * uint64_t{block_size_tokens},
                        uint64_t{1} << 31);
  violations.CheckRange("block-size", block_size_tokens, 1, 1024);
  violations.CheckRange("max-slots", max_slots, 1, 65536);
  violations.CheckRange("max-step-tokens", max_step_tokens, 1, 1u << 20);
  violations.CheckRange("max-logits-rows", max_logits_rows, 1, 65536);
  violations.CheckRange("max-logprobs", max_logprobs, 0, 1024);
  violations.CheckRange("max-decode-iterations", max_decode_iterations, 1, 1024);
  violations.CheckRange("max-steps-in-flight", max_steps_in_flight, 2, 64);
  violations.CheckRange("max-message-mib", max_message_mib, 1, 1024);
  violations.CheckRange("threads", num_threads, 0, 4096);
  violations.CheckDuration("poll-window", poll_window, absl::Seconds(1));
  violations.CheckDuration("drain-grace", drain_grace, absl::Hours(1));
  return violations.ToStatus();
}

uint32_t WorkerConfig::num_kv_blocks() const {
  return static_cast<uint32_t>(kv_cache_tokens / block_size_tokens);
}

CpuModelOptions WorkerConfig::model_options() const {
  CpuModelOptions options;
  options.num_kv_blocks = num_kv_blocks();
  options.block_size_tokens = block_size_tokens;
  options.max_step_tokens = max_step_tokens;
  options.max_logits_rows = max_logits_rows;
  options.num_threads = static_cast<int>(num_threads);
  return options;
}

ExecutorLimits WorkerConfig::executor_limits() const {
  return {.max_slots = max_slots,
          .max_step_tokens = max_step_tokens,
          .max_logprobs = max_logprobs,
          .max_decode_iterations = max_decode_iterations};
}

WorkerServerOptions WorkerConfig::server_options() const {
  return {.listen = listen,
          .max_message_bytes = static_cast<int>(max_message_mib) << 20,
          .service = {.max_steps_in_flight = max_steps_in_flight,
                      .max_streams = WorkerServiceOptions{}.max_streams,
                      .poll_window = poll_window}};
}

}  // namespace lockstep::worker
