#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/core/stream.h"
#include "kernels/rope/rope_table.h"
#include "worker/comm/thread_group.h"
#include "worker/cpu/kv_pool.h"
#include "worker/model/forward_model.h"
#include "worker/model/layers/flow.h"
#include "worker/model/layers/workspace.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/plan/tensor_rank.h"
#include "worker/model/weights/weights.h"

namespace lockstep::worker {

// What one rank of a tensor-parallel group owns.
struct CpuRank {
  TensorRank rank;
  ModelPlan share;  // ShareOf(plan, rank)
  ModelWeights weights;
  CpuKvPool kv_pool;
  Workspace workspace;
  std::unique_ptr<kernels::ThreadPool> threads;
};

// Everything a CpuModel owns, made by LoadCpuModel or by a test.
struct CpuModelParts {
  ModelPlan plan;
  std::vector<kernels::RopeTable> ropes;  // of the plan's rotations
  kernels::InstructionSet instruction_set;
  ForwardModelInfo info;
  std::vector<CpuRank> ranks = {};  // at least one
};

// The decoder forward pass (decoder_pass.h) on the CPU. The ranks run at the same time, one of them
// on the calling thread. Nothing is allocated.
class CpuModel final : public ForwardModel {
 public:
  explicit CpuModel(CpuModelParts parts);

  const ForwardModelInfo& info() const override { return parts_.info; }
  void Forward(const ForwardBatch& batch, std::span<float> logits) override;

  // Known only once the model has run its probe.
  void set_numerics_id(uint64_t id) { parts_.info.numerics_id = id; }
  size_t num_ranks() const { return parts_.ranks.size(); }
  const CpuKvPool& kv_pool(size_t rank = 0) const { return parts_.ranks[rank].kv_pool; }

 private:
  void RunRank(CpuRank& rank, const ForwardBatch& batch, std::span<float> logits);

  CpuModelParts parts_;
  const std::vector<Rotation> rotations_;  // point to the tables
  ThreadGroup group_;
  kernels::ThreadPool team_;  // a thread for each rank
};

}  // namespace lockstep::worker
