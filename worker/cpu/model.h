#pragma once

#include <memory>
#include <span>

#include "kernels/core/stream.h"
#include "kernels/rope/rope_table.h"
#include "worker/cpu/kv_pool.h"
#include "worker/model/forward_model.h"
#include "worker/model/layout/model_spec.h"
#include "worker/model/weights/weights.h"
#include "worker/model/workspace.h"

namespace lockstep::worker {

// Everything a CpuModel owns, made by LoadCpuModel or by a test.
struct CpuModelParts {
  ModelSpec spec;
  ModelWeights weights;
  kernels::RopeTable rope;
  CpuKvPool kv_pool;
  Workspace workspace;
  std::unique_ptr<kernels::ThreadPool> threads;
  kernels::InstructionSet instruction_set;
  ForwardModelInfo info;
};

// The decoder forward pass (decoder_pass.h) on the CPU. Nothing is allocated.
class CpuModel final : public ForwardModel {
 public:
  explicit CpuModel(CpuModelParts parts);

  const ForwardModelInfo& info() const override { return parts_.info; }
  void Forward(const ForwardBatch& batch, std::span<float> logits) override;

  // Known only once the model has run its probe.
  void set_numerics_id(uint64_t id) { parts_.info.numerics_id = id; }
  const CpuKvPool& kv_pool() const { return parts_.kv_pool; }

 private:
  void StageInputs(const ForwardBatch& batch);

  CpuModelParts parts_;
  kernels::Stream stream_;
};

}  // namespace lockstep::worker
