#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"

namespace lockstep::worker {

// A model on the GPU with NaN in all of its KV pool: what no token has written must not matter.
struct PoisonedCudaModel {
  std::unique_ptr<CudaModel> model;
  std::unique_ptr<CudaForwardModel> forward_model;  // of `model`
};

absl::StatusOr<PoisonedCudaModel> LoadPoisonedCudaModel(const std::string& path,
                                                        const ModelOptions& options);

}  // namespace lockstep::worker
