#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>

#include "worker/cuda/model_parts.h"
#include "worker/model/loading.h"
#include "worker/model/weights/weight_source.h"

// The steps of loading one rank of a model, in this order, on the rank's thread. `parts` has plan,
// info, rank and share.
namespace lockstep::worker {

inline constexpr int kComputeCapability = 90;

// Makes the device the thread's current one.
absl::Status OpenDevice(int device, const ModelOptions& options, CudaModel::Parts& parts);

// Weights, workspace, state of the slots, plans of the products. Returns the hash of the table of
// rotations.
absl::StatusOr<uint64_t> LoadRank(const WeightSource& source, const ModelOptions& options,
                                  CudaModel::Parts& parts);

// The KV blocks that the options request, or that fit the device. RESOURCE_EXHAUSTED if less than
// two fit.
absl::StatusOr<int64_t> CountKvBlocks(const ModelOptions& options, const CudaModel::Parts& parts);
absl::Status CreateKvPool(int64_t num_blocks, CudaModel::Parts& parts);

}  // namespace lockstep::worker
