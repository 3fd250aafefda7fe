#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/model_files/quantization/quantization_config.h"

namespace lockstep::cli {

struct QuantizeJob {
  std::string model;   // a folder with config.json and safetensors
  std::string output;  // a folder that does not exist, or is empty
  // kGroup with a group size of 0: the largest of 128, 64, 32 and 16 that divides the columns of
  // every matrix.
  WeightScheme scheme;
  std::vector<std::string> ignored;  // modules that keep their weights: names, or "re:" expressions
};

struct QuantizeReport {
  WeightScheme scheme;  // with the group size that was chosen
  uint64_t num_quantized = 0, num_tensors = 0;
  uint64_t bytes_before = 0, bytes_after = 0;  // of tensors
};

// Called after each tensor of the model.
using QuantizeProgress = std::function<void(uint64_t num_done, uint64_t num_tensors)>;

// Writes a folder with the same model: model.safetensors with the matrices of layers as codes,
// config.json with quantization_config, and copies of the other files except weights. Reads one
// tensor at a time. After an error the folder is as it was.
absl::StatusOr<QuantizeReport> QuantizeFolder(const QuantizeJob& job,
                                              const QuantizeProgress& progress);

}  // namespace lockstep::cli
