#pragma once

#include <absl/status/status.h>

#include <functional>

#include "kernels/core/thread_pool.h"
#include "worker/model/weights/weight_plan.h"

namespace lockstep::worker {

// Called now and then with the share that is done, 0 .. 1, ascending, from one thread at a time.
using LoadProgress = std::function<void(double fraction)>;

// Converts every tensor to our layout, on all threads. INVALID_ARGUMENT names a weight that is not
// finite as bf16.
absl::Status RunLoadTasks(const std::vector<LoadTask>& tasks, kernels::ThreadPool& threads,
                          const LoadProgress& progress);

}  // namespace lockstep::worker
