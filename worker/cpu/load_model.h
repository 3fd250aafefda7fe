#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/instruction_set.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

struct CpuModelOptions {
  uint32_t num_kv_blocks = 0;       // >= 2
  uint32_t block_size_tokens = 16;  // the CPU kernels take 16
  uint32_t max_step_tokens = 2048;
  uint32_t max_logits_rows = 256;
  int num_threads = 0;          // 0: one per core
  bool random_weights = false;  // config.json alone; seeded random numbers in place of tensors
  uint64_t random_seed = 1;
  // Overrides the best one of this processor; for tests and comparisons.
  std::optional<kernels::InstructionSet> instruction_set = std::nullopt;
  // Refuse to serve where a row's bits depend on its batch mates. Off only in the test that plants
  // this fault in order to see that the schedule-invariance test finds it too.
  bool check_reduction_contract = true;
  // Called from the loading thread with "weights" or "self-check" and the share that is done, from
  // 0 to 1.
  std::function<void(std::string_view stage, double fraction)> progress = nullptr;
};

// Loads a GGUF file or a folder with config.json and safetensors, converts the weights to bf16,
// checks that this machine keeps the reduction contract (docs/numerics.md) and computes the
// fingerprints and the numerics id. Errors name the file and what was expected.
absl::StatusOr<std::unique_ptr<ForwardModel>> LoadCpuModel(const std::string& path,
                                                           const CpuModelOptions& options);

}  // namespace lockstep::worker
