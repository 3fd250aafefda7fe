#pragma once

#include <memory>
#include <span>

#include "kernels/core/stream.h"
#include "kernels/rope/rope_table.h"
#include "worker/memory/kv_pool.h"
#include "worker/model/forward_model.h"
#include "worker/model/model_spec.h"
#include "worker/model/weights.h"
#include "worker/model/workspace.h"

namespace lockstep::worker {

// Everything a DecoderModel owns, made by LoadCpuModel or by a test.
struct DecoderParts {
  ModelSpec spec;
  DecoderWeights weights;
  kernels::RopeTable rope;
  KvPool kv_pool;
  Workspace workspace;
  std::unique_ptr<kernels::ThreadPool> threads;
  kernels::InstructionSet instruction_set;
  ForwardModelInfo info;
};

// The one decoder forward pass, for every family of ModelSpec. Its ops run on a Stream; nothing is
// allocated. Rounding points of a layer, each to bf16: the output of every projection (with its
// bias), q and k after norm and rotation, the attention output, silu(gate) * up, the residual after
// each of its two additions, and the output of every RMSNorm. Logits are not rounded.
class DecoderModel final : public ForwardModel {
 public:
  explicit DecoderModel(DecoderParts parts);

  const ForwardModelInfo& info() const override { return parts_.info; }
  void Forward(const ForwardBatch& batch, std::span<float> logits) override;

  // Known only once the model has run its probe.
  void set_numerics_id(uint64_t id) { parts_.info.numerics_id = id; }
  const KvPool& kv_pool() const { return parts_.kv_pool; }

 private:
  // Rows that go through projections together, and where their residual lives.
  struct Rows {
    int64_t count;
    kernels::BFloat16* residual;         // [count, hidden_size]
    const kernels::BFloat16* attention;  // [count, q_size]
  };

  void StageInputs(const ForwardBatch& batch);
  // Norm, QKV projection, rotation and append to the KV pool, for all tokens of the batch.
  void ComputeQkv(int64_t layer, int64_t num_tokens);
  void Attend(int64_t layer, const ForwardBatch& batch);
  // Output projection and MLP; leaves the MLP's output in workspace.delta, not yet added.
  void ComputeMlp(int64_t layer, const Rows& rows);
  // The rows whose logits are wanted are all that the last layer computes after attention.
  Rows SelectLogitsRows(const ForwardBatch& batch);
  void ComputeLogits(const Rows& rows, std::span<float> logits);

  DecoderParts parts_;
  kernels::Stream stream_;
};

}  // namespace lockstep::worker
