#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "worker/model/loading.h"
#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {

inline constexpr int kMaxCudaRanks = 8;  // GPUs of one machine

// Limits of the CUDA kernels, in addition to those of every backend. UNIMPLEMENTED names the
// unsupported values, also if only a rank's share is too small or uneven. `degree` must have passed
// CheckDegree.
absl::Status CheckCudaPlan(const ModelPlan& plan, int64_t degree);

// The device of each rank. UNIMPLEMENTED for too many ranks, INVALID_ARGUMENT if the options
// list another number of devices.
absl::StatusOr<std::vector<int>> RankDevicesOf(const ModelOptions& options);

}  // namespace lockstep::worker
