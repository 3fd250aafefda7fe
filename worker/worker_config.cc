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
#include "common/violations.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/kv_cache/paged_kv.h"
#include "kernels/sampling/cuda/sample_cuda.h"
#include "worker/worker_flags.h"

namespace lockstep::worker {
namespace {

// Collects the problems of the flags, one line for each violation.
class FlagViolations {
 public:
  void Add(std::string_view flag, std::string_view what) {
    lines_.Add(fmt::format("--{}: {}", flag, what));
  }
  void Merge(std::string_view flag, const absl::Status& status) {
    if (!status.ok()) Add(flag, Message(status));
  }
  Violations& lines() { return lines_; }
  absl::Status ToStatus() const { return lines_.ToStatus(); }

 private:
  Violations lines_ = Violations("", "\n");
};

// Other machines may reach the address only if that is allowed. `hint` says what would allow it.
void CheckAddress(std::string_view flag, const std::string& text, bool allowed,
                  std::string_view hint, FlagViolations& violations) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  violations.Merge(flag, address.status());
  if (!address.ok() || allowed || IsLoopback(*address)) return;
  violations.Add(
      flag,
      fmt::format("{} is reachable from other machines{} if the network is trusted", text, hint));
}

// A client of the step service may run steps, and may read the KV of other clients.
void CheckStepService(const WorkerConfig& config, FlagViolations& violations) {
  if (!IsUnixAddress(config.listen)) {
    const bool guarded = !config.tls.client_ca_path.empty();
    return CheckAddress("listen", config.listen, config.insecure || guarded,
                        ", which needs --tls-cert, --tls-key and --tls-client-ca; pass --insecure",
                        violations);
  }
  // Only processes of the same user reach the socket.
  violations.Merge("listen", ParseUnixAddress(config.listen).status());
  if (config.tls.enabled()) violations.Add("listen", "a unix socket takes no TLS");
}

}  // namespace

absl::Status WorkerConfig::Validate() const {
  FlagViolations violations;
  if (model.empty()) violations.Add("model", "expected a GGUF file or a folder with config.json");
  CheckStepService(*this, violations);
  CheckAddress("admin-listen", admin_listen, insecure || insecure_admin,
               " and has neither TLS nor keys; pass --insecure-admin", violations);
  violations.Merge("tls-cert", tls.Validate());
  violations.Merge("constraint-python", constraints.Validate());
  violations.Merge("cuda-device", CudaDevices().status());
  if (device == "cuda" && instruction_set != "auto") {
    violations.Add("instruction-set", "is of the CPU, but --device is cuda");
  }
  if (activations == "fp8" && device == "cpu") {
    violations.Add("activations", "fp8 needs a GPU, but --device is cpu");
  }
  if (activations == "fp8" && weights == "bf16") {
    violations.Add("activations", "fp8 needs weights in FP8, but --weights is bf16");
  }
  WorkerConfig copy = *this;  // a table of flags may set what it refers to
  CheckRanges(WorkerFlags(copy), violations.lines());
  return violations.ToStatus();
}

absl::Status WorkerConfig::ValidateOnCuda() const {
  FlagViolations violations;
  if (max_logprobs > kernels::kMaxDescribedTokens) {
    violations.Add("max-logprobs", fmt::format("a GPU worker reports at most {}, got {}",
                                               kernels::kMaxDescribedTokens, max_logprobs));
  }
  // Each sequence that decodes needs a row of logits. So this many sequences decode in one pass.
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
  return {.num_kv_blocks = static_cast<uint32_t>(kv_cache_tokens / kernels::kKvBlockTokens),
          .kv_type = ParseKvType(kv_dtype).value_or(kernels::KvType::kBFloat16),
          .memory_fraction = memory_fraction,
          .max_slots = max_slots,
          .max_step_tokens = max_step_tokens,
          .max_logits_rows = max_logits_rows,
          .num_threads = static_cast<int>(num_threads),
          .tensor_parallel = tensor_parallel,
          .weight_form = ParseWeightForm(weights).value_or(WeightForm::kAuto),
          .activation_form = ParseActivationForm(activations).value_or(ActivationForm::kBFloat16),
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

ExecutorLimits WorkerConfig::executor_limits_with_drafts() const {
  ExecutorLimits limits = executor_limits();
  limits.max_draft_tokens = max_draft_tokens;
  limits.draft_sources = {drafter == "auto" ? "ngram" : drafter};
  return limits;
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
