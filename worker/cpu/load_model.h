#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "worker/model/forward_model.h"
#include "worker/model/loading.h"

namespace lockstep::worker {

// Loads a GGUF file or a folder with config.json and safetensors, converts matrices to bf16 and
// vectors to fp32, checks that this machine keeps the reduction contract (docs/numerics.md) and
// computes the fingerprints and the numerics id. Errors name the file and what was expected.
absl::StatusOr<std::unique_ptr<ForwardModel>> LoadCpuModel(const std::string& path,
                                                           const ModelOptions& options);

}  // namespace lockstep::worker
