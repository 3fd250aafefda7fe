#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/model_files/model_config.h"
#include "kernels/core/instruction_set.h"
#include "worker/model/forward_model.h"
#include "worker/model/layout/model_spec.h"
#include "worker/model/weights/weight_source.h"

// What loading a model is on every backend. A backend adds memory, upload and kernels.
namespace lockstep::worker {

struct ModelOptions {
  int device = 0;              // of CUDA: index
  uint32_t num_kv_blocks = 0;  // on the CPU >= 2; CUDA, 0: what `memory_fraction` has room for
  double memory_fraction =
      0.92;  // of CUDA: of what is free once weights and workspace are in place
  // Of CUDA: device memory that will be asked for after the model is loaded, and that the KV pool
  // must leave free; null: none.
  std::function<size_t(const ModelSpec&)> reserved_bytes = nullptr;
  uint32_t block_size_tokens = 16;  // the kernels take 16
  uint32_t max_slots = 256;         // of CUDA: sequences resident at once
  uint32_t max_step_tokens = 2048;  // at least 2
  uint32_t max_logits_rows = 256;
  int num_threads = 0;          // 0: one per core
  bool random_weights = false;  // config.json alone; seeded random numbers in place of tensors
  uint64_t random_seed = 1;
  // Of the CPU: overrides the best one of this processor.
  std::optional<kernels::InstructionSet> instruction_set = std::nullopt;
  // Refuse to serve where a row's bits depend on its batch mates. Off only in the test that plants
  // this fault in order to see that the schedule-invariance test finds it too.
  bool check_reduction_contract = true;
  // Of CUDA: decode steps of up to so many rows run all layers in one kernel, if there is one for
  // the shape; unset: where that is faster. At least 0. Changes no bit.
  std::optional<int64_t> max_fused_rows = std::nullopt;
  // Of CUDA: compute the activation of an MLP in the kernel of its product, where that is faster.
  // Changes no bit.
  bool fuse_activation = true;
  bool overlap_launches = true;  // of CUDA: start each kernel while the one before it drains
  // Called from the loading thread with "weights" or "self-check" and the share that is done, from
  // 0 to 1.
  std::function<void(std::string_view stage, double fraction)> progress = nullptr;

  void Report(std::string_view stage, double fraction) const {
    if (progress) progress(stage, fraction);
  }
  int NumThreads() const;
};

// A model before its weights.
struct ModelDescription {
  ModelConfig config;
  ModelSpec spec;
  ForwardModelInfo info;  // but for the number of blocks, the weights' fingerprint, the numerics id
};

// Of a GGUF file, or of a folder with config.json and tokenizer. `device` is what info() calls it.
// Errors name the file and what was expected.
absl::StatusOr<ModelDescription> DescribeModel(const std::string& path, const ModelOptions& options,
                                               std::string device);

// The model's tensors, or random ones.
absl::StatusOr<WeightSource> OpenWeights(const std::string& path, const ModelDescription& model,
                                         const ModelOptions& options);

// The self-check of a model that is ready to run: whether it keeps the reduction contract, and its
// numerics id (docs/numerics.md). Arguments as for NumericsId. Overwrites the first KV blocks.
absl::StatusOr<uint64_t> CheckNumerics(ForwardModel& model, const ModelOptions& options,
                                       std::span<const uint64_t> kernel_constants,
                                       uint64_t rope_hash);

}  // namespace lockstep::worker
