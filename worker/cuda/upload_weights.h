#pragma once

#include <absl/status/status.h>

#include <vector>

#include "kernels/core/thread_pool.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"

namespace lockstep::worker {

// Converts every tensor to bf16 and copies it to where the plan wants it in device memory
// (WeightLayout::kRowMajor): each thread reads, converts and copies pieces of its own, and converts
// the next while the device fetches the last. Returns when all bytes have arrived. `device` is the
// CUDA device of the memory.
absl::Status UploadWeights(const std::vector<LoadTask>& tasks, int device,
                           kernels::ThreadPool& threads, const LoadProgress& progress);

}  // namespace lockstep::worker
