#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/packed_storage.h"
#include "worker/model/weights/weight_plan.h"
#include "worker/model/weights/weights.h"

namespace lockstep::worker {

// A backend's way of loading weights.
struct WeightLoader {
  WeightStorage storage;
  MakePackedWeights make_packed = nullptr;  // called if storage.packs is set
  // Does the tasks: RunLoadTasks on the CPU.
  std::function<absl::Status(const std::vector<LoadTask>&, const LoadProgress&)> load;
  // Gives memory to matrices that were to be packed, and become bf16 as make_packed refuses them.
  std::function<absl::Status(Arena&)> commit_unpacked = [](Arena& arena) { return arena.Commit(); };
};

// Plans a rank's weights (PlanWeights), packs what stays packed on all threads, and loads the rest.
// Threads that pack hold at most 2^30 codes together, or one matrix. A code takes up to three bytes
// meanwhile. Logs for how many products the weights become bf16, and the first reason.
// INVALID_ARGUMENT names the tensors that are wrong.
absl::StatusOr<ModelWeights> LoadModelWeights(const ModelPlan& model, const WeightSource& source,
                                              const WeightLoader& loader,
                                              kernels::ThreadPool& threads,
                                              const LoadProgress& progress);

// The forms of the weights of products, for people: "bf16", or "Q4_K+Q6_K+bf16". At most three, and
// the number of the others.
std::string StorageName(const ModelWeights& weights);

}  // namespace lockstep::worker
