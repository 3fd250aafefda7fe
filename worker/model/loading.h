#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/model_config.h"
#include "kernels/core/instruction_set.h"
#include "kernels/kv_cache/kv_type.h"
#include "worker/model/forward_model.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/weights/packed_storage.h"
#include "worker/model/weights/random_codes.h"
#include "worker/model/weights/weight_source.h"

// The part of loading a model that all backends share. A backend adds memory, upload and kernels.
namespace lockstep::worker {

// How to keep matrices that the file stores as codes. Changes no bit.
enum class WeightForm {
  kAuto,     // packed, unless bf16 is faster
  kPacked,   // packed, where the backend has storage for the codes
  kBFloat16  // converted at load
};
// "auto", "packed" or "bf16".
std::optional<WeightForm> ParseWeightForm(std::string_view name);

// "bf16" or "auto", or "fp8" or "fp8_e4m3".
std::optional<kernels::KvType> ParseKvType(std::string_view name);

// What activations become for products whose weights are codes.
enum class ActivationForm {
  kBFloat16,
  // CUDA: E4M3 where the weights are. Other bits, and a numerics id of its own. Products with
  // weights in bf16 stay as they are.
  kFp8
};
// "bf16" or "fp8".
std::optional<ActivationForm> ParseActivationForm(std::string_view name);

struct ModelOptions {
  // CUDA: the index of each rank's device. If there are none, the ranks have the first devices.
  // Only tests let ranks share one.
  std::vector<int> rank_devices = {};
  // Of the first KV group; NumPoolBlocks says how many the others have. CPU: at least 2. CUDA: 0
  // takes as many as `memory_fraction` allows.
  uint32_t num_kv_blocks = 0;
  kernels::KvType kv_type = kernels::KvType::kBFloat16;  // of every KV group; part of the bits
  double memory_fraction =
      0.92;  // CUDA: share of the memory that is free once weights and workspace are in place
  // CUDA: bytes of device memory that are needed after the model is loaded. The KV pool leaves them
  // free. Null: none.
  std::function<size_t(const ModelPlan&)> reserved_bytes = nullptr;
  uint32_t max_slots = 256;         // sequences resident at once
  uint32_t max_step_tokens = 2048;  // at least 2
  uint32_t max_logits_rows = 256;
  int num_threads = 0;  // of all ranks together; 0: one per core
  // Ranks that share the model. CPU: each has threads of its own. CUDA: each has a device.
  uint32_t tensor_parallel = 1;
  WeightForm weight_form = WeightForm::kAuto;
  ActivationForm activation_form = ActivationForm::kBFloat16;
  // CPU: takes the place of the backend's storage of packed weights. Only tests set it.
  MakePackedWeights make_packed_weights = nullptr;
  bool random_weights = false;  // config.json alone; seeded random numbers in place of tensors
  uint64_t random_seed = 1;
  // Random matrices have these codes, for any configuration. For benchmarks and tests.
  std::optional<RandomCodes> random_codes = std::nullopt;
  // CPU: used instead of the processor's best instruction set.
  std::optional<kernels::InstructionSet> instruction_set = std::nullopt;
  // Refuse to serve if a row's bits depend on its batch mates. Only tests turn this off: they plant
  // this fault, to see that the schedule-invariance test finds it too. Without the check products
  // of many rows have no plans on CUDA, and run on our own kernel.
  bool check_reduction_contract = true;
  // CUDA: decode steps of up to this many rows run all layers in one kernel, if it takes the
  // model's shape, with any number of keys. Unset: only where that is faster. At least 0. Changes
  // no bit.
  std::optional<int64_t> max_fused_rows = std::nullopt;
  // CUDA: compute the activation of an MLP in the kernel of its product, where that is faster.
  // Changes no bit.
  bool fuse_activation = true;
  // CUDA: exchange columns of few rows in the kernel of the norm that needs them. Changes no bit.
  bool fuse_exchange = true;
  bool overlap_launches = true;  // CUDA: start each kernel while its predecessor drains
  // CUDA: the number of multiprocessors that kernels use at most. Only tests set this, to simulate
  // smaller devices. At least 1. Changes no bit.
  int max_multiprocessors = std::numeric_limits<int>::max();
  // Called from one thread at a time with "weights" or "self-check" and the share that is done,
  // from 0 to 1.
  std::function<void(std::string_view stage, double fraction)> progress = nullptr;

  void Report(std::string_view stage, double fraction) const {
    if (progress) progress(stage, fraction);
  }
  int NumThreads() const;
};

// What is known of a model before its weights are loaded.
struct ModelDescription {
  ModelConfig config;
  ModelPlan plan;
  ForwardModelInfo info;  // without weights_fingerprint, numerics_id and, on CUDA, num_blocks
};

// `path` is a GGUF file, or a folder with config.json and tokenizer. `device` becomes info.device.
// Errors name the file and what was expected.
absl::StatusOr<ModelDescription> DescribeModel(const std::string& path, const ModelOptions& options,
                                               std::string device);

// The model's tensors, or random ones. FAILED_PRECONDITION, saying what the model has, if the
// options ask for activations in FP8 and no weights are in FP8.
absl::StatusOr<WeightSource> OpenWeights(const std::string& path, const ModelDescription& model,
                                         const ModelOptions& options);

// Self-check of a model that is ready to run. Checks that it keeps the reduction contract, and
// returns its numerics id (docs/numerics.md). Arguments as for NumericsId. Overwrites the first KV
// blocks.
absl::StatusOr<uint64_t> CheckNumerics(ForwardModel& model, const ModelPlan& plan,
                                       const ModelOptions& options,
                                       std::span<const uint64_t> kernel_constants,
                                       uint64_t rope_hash);

}  // namespace lockstep::worker
