#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/model_files/model_family.h"
#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "worker/model/weights/quantized_tensor.h"

namespace lockstep::worker {

struct QuantizedModule {
  std::string weight_name;      // "model.layers.0.mlp.down_proj.weight"
  std::vector<uint64_t> shape;  // [N, K]
  std::shared_ptr<const QuantizedTensor> weight;
};

struct QuantizedModules {
  std::vector<QuantizedModule> modules;
  // Tensors that are not offered to the model: parts of modules, scales of activations, scales of
  // keys and values.
  std::set<std::string, std::less<>> hidden;
  // Biases of quantised modules that are all zero. AutoGPTQ adds them to modules without a bias.
  std::set<std::string, std::less<>> zero_biases;
  // "int4, groups of 128 (compressed-tensors): 210 modules"
  std::string summary;
  std::string warning;  // what is not used, or empty
};

// The modules of a checkpoint that are quantised, by its configuration. A module with a weight in
// F32, F16 or BF16 and nothing beside it is not. The checkpoint must outlive the result, and may be
// moved. INVALID_ARGUMENT names a tensor.
absl::StatusOr<QuantizedModules> FindQuantizedModules(const SafetensorsCheckpoint& checkpoint,
                                                      const QuantizationConfig& config,
                                                      const ModelFamily& family);

}  // namespace lockstep::worker
