#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/gemm.h"
#include "worker/comm/all_gather.h"
#include "worker/model/layers/ops.h"
#include "worker/model/layers/workspace.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/plan/tensor_rank.h"
#include "worker/model/weights/weights.h"

namespace lockstep::worker {

// Cosines and sines of one of the plan's rotations.
struct Rotation {
  const float* cos = nullptr;  // [max_context_tokens, head_dim / 2]
  const float* sin = nullptr;
};

// What a pass computes with. Everything outlives the pass. Pointers are to the backend's memory.
struct PassContext {
  const ModelPlan* plan = nullptr;   // of the whole model
  const ModelPlan* share = nullptr;  // of this rank, ShareOf(plan, rank)
  TensorRank rank = {};
  const ModelWeights* weights = nullptr;
  const Workspace* workspace = nullptr;
  std::span<const Rotation> rotations = {};
};

// One layer, as its parts see it.
struct Layer {
  const LayerKind& kind;   // of the whole model
  const LayerKind& share;  // of this rank
  const LayerWeights& weights;
  const Rotation& rotation;
  const KvInputs& kv_inputs;
  kernels::PagedKv kv;  // of this rank's heads
};

// The rows of one pass on their way through the parts of the layers: which rows they are, what is
// still to be added to their residual, and the exchange of columns between the ranks. The parts
// (embedding.h, norm.h, attention.h, mlp.h, logits.h) know a flow, and not each other.
class Flow {
 public:
  // The rows are all tokens of the batch.
  Flow(const PassContext& context, DecoderOps& ops, int64_t num_tokens);

  const ModelPlan& plan() const { return *context_.plan; }
  Layer LayerAt(int64_t index);
  const ModelWeights& weights() const { return *context_.weights; }
  const Workspace& workspace() const { return *context_.workspace; }
  const PassContext& context() const { return context_; }
  DecoderOps& ops() { return ops_; }

  int64_t num_rows() const { return num_rows_; }
  kernels::BFloat16* residual() const { return residual_; }    // [num_rows, hidden_size]
  kernels::BFloat16* attention() const { return attention_; }  // [num_rows, q_size]
  // From here on the rows are these: `rows` are indices of rows, [num_rows]. The attention of the
  // layer is in place.
  absl::Status Select(const Layer& layer, const uint32_t* rows, int64_t num_rows);

  // What the next norm adds to the residual.
  enum class Delta {
    kNone,
    kWhole,    // workspace.delta
    kColumns,  // workspace.delta; this rank has computed its Columns() of it
  };
  void SetPending(Delta delta) { delta_ = delta; }
  Delta TakePending();

  // Where this rank's columns of `whole` are to be written: to `whole` itself if there is one rank.
  kernels::BFloat16* Columns(kernels::BFloat16* whole) const;
  // The next exchange: completes `whole`, [num_rows, num_columns], once this rank's Columns() of it
  // are written.
  AllGatherParams NextExchange(kernels::BFloat16* whole, int64_t num_columns);
  // Does that exchange if there are several ranks.
  absl::Status Gather(kernels::BFloat16* whole, int64_t num_columns);

  // The product of the rows of `input`, [num_rows, weights.matrix.k], and a linear part. Rows lie
  // one behind the other. output: [num_rows, weights.matrix.n], a rank's columns of the product.
  kernels::GemmParams Product(const kernels::BFloat16* input, const PartWeights& weights,
                              kernels::BFloat16* output) const;

 private:
  const PassContext& context_;
  DecoderOps& ops_;
  int64_t num_rows_;
  kernels::BFloat16* residual_;
  kernels::BFloat16* attention_;
  Delta delta_ = Delta::kNone;
  // Which of workspace.exchanged is next. Every pass has an even number of exchanges, so they take
  // turns from pass to pass, too.
  size_t exchange_ = 0;
};

}  // namespace lockstep::worker
