#include "worker/worker_config.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "common/net/address.h"
#include "common/net/unix_socket.h"
#include "common/status.h"
#include "common/step_message.h"
#include "common/violations.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/sampling/cuda/sample_cuda.h"

namespace lockstep::worker {
namespace {

// Collects the problems of the flags, one line for each violation.
class FlagViolations {
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
    lines_.Add(fmt::format("--{}: {}", flag, what));
  }
  absl::Status ToStatus() const { return lines_.ToStatus(); }

 private:
  Violations lines_ = Violations("", "\n");
};

}  // namespace

absl::Status WorkerConfig::Validate() const {
  FlagViolations violations;
  if (model.empty()) violations.Add("model", "expected a GGUF file or a folder with config.json");
  const auto check_address = [&](std::string_view flag, const std::string& text, bool guarded,
                                 std::string_view guard, std::string_view allow = "--insecure") {
    if (const auto address = ParseAddress(text); !address.ok()) {
      violations.Add(flag, Message(address.status()));
    } else if (!insecure && !guarded && !IsLoopback(*address)) {
      violations.Add(flag, fmt::format("{} is reachable from other machines{}; pass {} if "
                                       "the network is trusted",
                                       text, guard, allow));
    }
  };
  // A client of the step service may run steps and read the data of other clients' steps.
  if (IsUnixAddress(listen)) {
    // Only processes of the same user can connect.
    if (const auto path = ParseUnixAddress(listen); !path.ok()) {
      violations.Add("listen", Message(path.status()));
    }
    if (tls.enabled()) violations.Add("listen", "a unix socket takes no TLS");
  } else {
    check_address("listen", listen, !tls.client_ca_path.empty(),
                  ", which needs --tls-cert, --tls-key and --tls-client-ca");
  }
  check_address("admin-listen", admin_listen, insecure_admin, " and has neither TLS nor keys",
                "--insecure-admin");
  if (const absl::Status status = tls.Validate(); !status.ok()) {
    violations.Add("tls-cert", Message(status));
  }
  // A pool needs at least two blocks; routers accept no more than the maximum.
  if (kv_cache_tokens != 0) {
    violations.CheckRange("kv-cache-tokens", kv_cache_tokens, 2 * uint64_t{block_size_tokens},
                          uint64_t{1} << 26);
  }
  if (device != "auto" && device != "cpu" && device != "cuda") {
    violations.Add("device", fmt::format("must be auto, cpu or cuda, got \"{}\"", device));
  }
  if (const auto devices = CudaDevices(); !devices.ok()) {
    violations.Add("cuda-device", Message(devices.status()));
  }
  if (instruction_set != "auto") {
    if (!kernels::ParseInstructionSet(instruction_set).has_value()) {
      violations.Add(
          "instruction-set",
          fmt::format("must be auto, portable, avx2 or avx512_bf16, got \"{}\"", instruction_set));
    }
    if (device == "cuda") violations.Add("instruction-set", "is of the CPU, but --device is cuda");
  }
  if (load_format != "auto" && load_format != "random") {
    violations.Add("load-format", fmt::format("must be auto or random, got \"{}\"", load_format));
  }
  if (!ParseWeightForm(weights).has_value()) {
    violations.Add("weights", fmt::format("must be auto, packed or bf16, got \"{}\"", weights));
  }
  if (!(memory_fraction > 0 && memory_fraction <= 1)) {
    violations.Add("memory-fraction",
                   fmt::format("must be above 0 and at most 1, got {}", memory_fraction));
  }
  violations.CheckRange("tensor-parallel", tensor_parallel, 1, 64);
  violations.CheckRange("block-size", block_size_tokens, 1, 1024);
  violations.CheckRange("max-slots", max_slots, 0, 65536);
  violations.CheckRange("max-step-tokens", max_step_tokens, 0, 1u << 20);
  violations.CheckRange("max-logits-rows", max_logits_rows, 0, 65536);
  violations.CheckRange("max-logprobs", max_logprobs, 0, 1024);
  violations.CheckRange("max-decode-iterations", max_decode_iterations, 1, 1024);
  violations.CheckRange("max-steps-in-flight", max_steps_in_flight, 2, 64);
  violations.CheckRange("max-message-mib", max_message_mib, kMaxStepMessageMib, 1024);
  violations.CheckRange("threads", num_threads, 0, 4096);
  violations.CheckDuration("poll-window", poll_window, absl::Seconds(1));
  violations.CheckDuration("drain-grace", drain_grace, absl::Hours(1));
  return violations.ToStatus();
}

absl::Status WorkerConfig::ValidateOnCuda() const {
  FlagViolations violations;
  if (max_logprobs > kernels::kMaxDescribedTokens) {
    violations.Add("max-logprobs", fmt::format("a GPU worker reports at most {}, got {}",
                                               kernels::kMaxDescribedTokens, max_logprobs));
  }
  // Every sequence that decodes needs a row of logits, so this bounds how many decode in one pass.
  const int64_t max_decode_rows = std::min({max_slots, max_logits_rows, max_step_tokens});
  if (max_decode_rows > kernels::kMaxDecodeRows) {
    violations.Add("max-logits-rows",
                   fmt::format("with --max-slots {} a GPU worker takes at most {}, got {}",
                               max_slots, kernels::kMaxDecodeRows, max_logits_rows));
  } else if (max_logits_rows > kernels::kMaxDeviceRows) {
    violations.Add("max-logits-rows", fmt::format("a GPU worker takes at most {}, got {}",
                                                  kernels::kMaxDeviceRows, max_logits_rows));
  }
  return violations.ToStatus();
}

absl::StatusOr<std::vector<int>> WorkerConfig::CudaDevices() const {
  std::vector<int> devices;
  if (cuda_device.empty()) {
    devices.resize(tensor_parallel);
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  constexpr int kMostDevices = 1024;
  for (const absl::string_view entry : absl::StrSplit(cuda_device, ',')) {
    int device = 0;
    if (!absl::SimpleAtoi(entry, &device) || device < 0 || device >= kMostDevices) {
      return InvalidArgument("expected indices of GPUs such as 0,1,2,3, got \"{}\"", cuda_device);
    }
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      return InvalidArgument("names GPU {} twice; every rank needs a GPU of its own", device);
    }
    devices.push_back(device);
  }
  if (tensor_parallel != 1 && devices.size() != tensor_parallel) {
    return InvalidArgument("names {} GPUs, but --tensor-parallel is {}", devices.size(),
                           tensor_parallel);
  }
  return devices;
}

absl::StatusOr<bool> WorkerConfig::ServesOnCuda(const absl::Status& first_device) const {
  if (device == "cpu") return false;
  if (first_device.ok()) return true;
  if (device == "cuda") return Annotate(first_device, "--device=cuda");
  if (absl::IsUnavailable(first_device)) return false;
  return Annotate(
      first_device,
      "--device=auto: this machine has an NVIDIA driver, but the GPU cannot be used, and "
      "only --device=cpu serves without it");
}

WorkerConfig WorkerConfig::For(const DeviceDefaults& defaults) const {
  WorkerConfig config = *this;
  if (max_slots == 0) config.max_slots = defaults.max_slots;
  if (max_step_tokens == 0) config.max_step_tokens = defaults.max_step_tokens;
  if (max_logits_rows == 0) config.max_logits_rows = defaults.max_logits_rows;
  if (kv_cache_tokens == 0) config.kv_cache_tokens = defaults.kv_cache_tokens;
  return config;
}

ModelOptions WorkerConfig::model_options() const {
  return {.num_kv_blocks = static_cast<uint32_t>(kv_cache_tokens / block_size_tokens),
          .memory_fraction = memory_fraction,
          .block_size_tokens = block_size_tokens,
          .max_slots = max_slots,
          .max_step_tokens = max_step_tokens,
          .max_logits_rows = max_logits_rows,
          .num_threads = static_cast<int>(num_threads),
          .tensor_parallel = tensor_parallel,
          .weight_form = ParseWeightForm(weights).value_or(WeightForm::kAuto),
          .random_weights = load_format == "random",
          .random_seed = random_seed,
          .random_codes = FindRandomCodes(random_codes),
          .instruction_set = kernels::ParseInstructionSet(instruction_set),  // "auto": none
          .max_fused_rows = max_fused_rows,
          .fuse_activation = fuse_activation,
          .fuse_exchange = fuse_exchange};
}

ExecutorLimits WorkerConfig::executor_limits() const {
  return {.max_slots = max_slots,
          .max_step_tokens = max_step_tokens,
          .max_logprobs = max_logprobs,
          .max_decode_iterations = max_decode_iterations};
}

WorkerServerOptions WorkerConfig::server_options() const {
  return {.listen = listen,
          .tls = tls,
          .service = {.max_steps_in_flight = max_steps_in_flight,
                      .max_message_bytes = static_cast<int>(max_message_mib) << 20,
                      .max_streams = WorkerServiceOptions{}.max_streams,
                      .hand_back_grace = drain_grace,
                      .poll_window = poll_window}};
}

}  // namespace lockstep::worker
