#pragma once

#include <absl/status/status.h>

#include <vector>

#include "kernels/core/thread_pool.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"

namespace lockstep::worker {

// Copies all tensors to device memory, where the plan wants them (WeightLayout::kRowMajor).
// Matrices become bf16, vectors fp32. Each thread reads, converts and copies its own pieces. It
// converts a piece while the device fetches the previous piece. Returns when all bytes have
// arrived. `device` is the CUDA device of the memory. INVALID_ARGUMENT names a weight that is not
// finite as bf16.
absl::Status UploadWeights(const std::vector<LoadTask>& tasks, int device,
                           kernels::ThreadPool& threads, const LoadProgress& progress);

}  // namespace lockstep::worker
