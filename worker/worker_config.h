#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/constraints/engine_process.h"
#include "common/net/tls/tls_files.h"
#include "worker/model/loading.h"
#include "worker/service/worker_server.h"
#include "worker/steps/executor_limits.h"

namespace lockstep::worker {

// Values for settings that are 0, by kind of device.
struct DeviceDefaults {
  uint32_t max_slots = 0;
  uint32_t max_step_tokens = 0;
  uint32_t max_logits_rows = 0;
  uint64_t kv_cache_tokens = 0;  // 0: what is free
};
inline constexpr DeviceDefaults kCpuDefaults = {
    .max_slots = 256, .max_step_tokens = 2048, .max_logits_rows = 256, .kv_cache_tokens = 32768};
inline constexpr DeviceDefaults kGpuDefaults = {
    .max_slots = 512, .max_step_tokens = 8192, .max_logits_rows = 512};

// All settings of a worker process (docs/configuration.md). WorkerFlags has a flag for each setting
// that users may change, with its range. The defaults are here.
struct WorkerConfig {
  std::string model;  // GGUF file, or folder with config.json and safetensors
  std::string listen = "127.0.0.1:50061";
  std::string admin_listen = "127.0.0.1:9091";
  std::string device = "auto";  // "cpu", "cuda", or "auto": CUDA where there is a device
  // Indices of the CUDA devices, as in "0,1,2,3": one for each rank. Empty: the first ones.
  std::string cuda_device;
  // Ranks that share the model. 1 and several CUDA devices: as many as there are devices.
  uint32_t tensor_parallel = 1;
  // Kernels of the CPU: "portable", "avx2", "avx512_bf16", or "auto": the best of this processor.
  std::string instruction_set = "auto";
  std::string load_format = "auto";  // "auto": the model's files; "random": config.json alone
  uint64_t random_seed = 1;          // of random weights
  // How matrices of quantised files are kept: "packed", "bf16", or "auto": packed, unless bf16 is
  // faster.
  std::string weights = "auto";
  // What activations become for products with FP8 weights: "bf16", or "fp8" on CUDA.
  std::string activations = "bf16";
  TlsFiles tls;           // of `listen`; none: plaintext
  bool insecure = false;  // allow addresses that other machines can reach, without certificates
  bool insecure_admin = false;    // the same for admin_listen only
  uint64_t kv_cache_tokens = 0;   // 0: the device's default
  std::string kv_dtype = "bf16";  // or "fp8", which is "fp8_e4m3"; "auto" is bf16
  double memory_fraction = 0.92;  // of a GPU's free memory, for the KV cache
  uint32_t max_slots = 0;         // 0 here and in the next two: the device's default
  uint32_t max_step_tokens = 0;
  uint32_t max_logits_rows = 0;
  uint32_t max_logprobs = 20;
  uint32_t max_decode_iterations = 8;
  uint32_t max_steps_in_flight = 4;
  std::string drafter = "auto";  // "ngram", "none", or "auto": as the backend finds right
  uint32_t max_draft_tokens = 8;
  // Only for comparisons: no flag sets these. See ModelOptions.
  std::optional<uint32_t> max_fused_rows;
  std::string random_codes;  // of random weights (FindRandomCodes); empty: numbers
  bool fuse_activation = true;
  bool fuse_exchange = true;
  bool scripted_drafts = false;  // on CUDA: of StepRunner::SetDraftScript, not of the drafter
  ConstraintEngineConfig constraints = {.job_time = absl::Seconds(5), .memory_mib = 4096};
  std::string constraint_packages = "auto";  // FindConstraintPackages
  uint32_t max_message_mib = 64;
  uint32_t num_threads = 0;  // 0: one per core
  absl::Duration poll_window = absl::ZeroDuration();
  absl::Duration drain_grace = absl::Seconds(30);
  bool check_only = false;  // check the flags and end

  // Every violation at once, one on each line. Each names its flag.
  absl::Status Validate() const;
  // The same for limits of the CUDA kernels. Call it on a copy with the defaults of a GPU.
  absl::Status ValidateOnCuda() const;

  // The device of each rank on CUDA. INVALID_ARGUMENT if the list cannot be read, names a device
  // twice, or has another number of devices than there are ranks.
  absl::StatusOr<std::vector<int>> CudaDevices() const;

  // Whether the model runs on CUDA. `first_device` says whether its first device can be used. auto
  // serves on the CPU only if `first_device` is UNAVAILABLE: there is no device, no driver, or no
  // CUDA in this build. Any other error is returned. A GPU that is broken or not ready must not
  // become a CPU worker, because CPU and GPU compute other bits.
  absl::StatusOr<bool> ServesOnCuda(const absl::Status& first_device) const;

  // A copy with `defaults` in place of values that are 0.
  WorkerConfig For(const DeviceDefaults& defaults) const;

  ModelOptions model_options() const;
  // `by_default`: what the backend does with "auto".
  bool drafts(bool by_default) const {
    return max_draft_tokens > 0 && (drafter == "auto" ? by_default : drafter != "none");
  }
  ExecutorLimits executor_limits() const;  // of a backend that drafts nothing
  ExecutorLimits executor_limits_with_drafts() const;
  WorkerServerOptions server_options() const;
};

}  // namespace lockstep::worker
