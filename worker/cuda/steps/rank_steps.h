#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "worker/cuda/model.h"
#include "worker/cuda/steps/decode_graphs.h"
#include "worker/cuda/steps/slot_writer.h"
#include "worker/cuda/steps/step_memory.h"

namespace lockstep::worker {

// What is sampled in a pass. Rows that sample come first, then prompt tokens whose log-probability
// is wanted.
struct PassSampling {
  int64_t num_samples = 0;
  int64_t num_prompts = 0;
  bool describes = false;  // sampled tokens need log-probabilities
};

// One rank's part of a CudaStepRunner on its device: memory, graphs, passes. Used on the rank's
// thread. Knows nothing of steps and results.
class CudaRankSteps {
 public:
  // `model` is the rank's. `first` is rank 0, whose staging all ranks read; null: this is rank 0.
  // Both outlive the object.
  static absl::StatusOr<std::unique_ptr<CudaRankSteps>> Create(CudaModel& model,
                                                               int64_t max_graph_rows,
                                                               const CudaDrafts& drafts,
                                                               const CudaRankSteps* first);

  const CudaStepMemory& memory() const { return *memory_; }
  DecodeGraphs& graphs() { return graphs_; }

  // Captures the graphs of contexts of up to `max_keys`, and runs the kernels that no graph has.
  absl::Status CaptureGraphs(int64_t max_keys);

  // Every slot becomes inactive.
  absl::Status EnqueueClear();
  absl::Status EnqueueSlotChanges(const PassStaging& staging, const SlotChanges& changes);
  // The rows of the next iterations of graphs, padding included.
  absl::Status EnqueueRows(const PassStaging& staging, int64_t num_rows);
  // The drafts of the slot's positions from 0 on. Only with kScript.
  absl::Status EnqueueScript(SlotId slot, std::span<const TokenId> script);
  // A pass without a graph, and what is sampled in it. begin_ns of `batch` is ignored.
  absl::Status EnqueuePass(const CudaBatch& batch, const PassStaging& staging,
                           const PassSampling& sampling);

  // Whether the pass has written its results to this rank's ring.
  bool IsReported(uint64_t serial) const;
  // cudaSuccess once all passes are done, cudaErrorNotReady, or the device's error.
  int QueryDevice() const;

 private:
  CudaRankSteps(CudaModel& model, int64_t max_graph_rows, std::unique_ptr<CudaStepMemory> memory)
      : model_(model), memory_(std::move(memory)), graphs_(model, *memory_, max_graph_rows) {}

  CudaModel& model_;
  const std::unique_ptr<CudaStepMemory> memory_;
  DecodeGraphs graphs_;
};

}  // namespace lockstep::worker
