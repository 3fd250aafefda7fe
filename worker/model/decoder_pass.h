#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>

#include "common/status.h"
#include "kernels/activation/gelu.h"
#include "kernels/activation/swiglu.h"
#include "kernels/embedding/gather_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kv_cache/paged_kv.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rope/rotary_append.h"
#include "worker/comm/all_gather.h"
#include "worker/model/layout/model_spec.h"
#include "worker/model/layout/tensor_rank.h"
#include "worker/model/weights/weights.h"
#include "worker/model/workspace.h"

namespace lockstep::worker {

// What the attention of one layer reads and writes: all heads, or those of this rank.
struct AttentionInputs {
  const kernels::BFloat16* query = nullptr;  // [num_tokens, num_heads, head_dim]
  int64_t query_stride = 0;                  // elements between tokens
  kernels::BFloat16* output = nullptr;       // [num_tokens, num_heads * head_dim]
  kernels::PagedKv kv;
};

// The ops of a backend, on its stream. They run, or are enqueued, in the order of the calls. Only
// attention depends on more than its arguments: the backend also knows the sequences of the batch.
class DecoderOps {
 public:
  virtual ~DecoderOps() = default;
  virtual absl::Status GatherRows(const kernels::GatherRowsParams& params) = 0;
  virtual absl::Status RmsNorm(const kernels::RmsNormParams& params) = 0;
  virtual absl::Status LayerNorm(const kernels::LayerNormParams& params) = 0;
  virtual absl::Status Gemm(const kernels::GemmParams& params) = 0;
  virtual absl::Status RotaryAppend(const kernels::RotaryAppendParams& params) = 0;
  virtual absl::Status Attend(const AttentionInputs& inputs) = 0;
  // SwiGlu of the Gemm's output. `gate_up.output` has room for this output, but a backend need not
  // write it.
  virtual absl::Status GatedGemm(const kernels::GemmParams& gate_up,
                                 const kernels::SwiGluParams& swiglu) = 0;
  // Gelu of the Gemm's output. `product.output` has room for this output, but a backend need not
  // write it.
  virtual absl::Status GeluGemm(const kernels::GemmParams& product,
                                const kernels::GeluParams& gelu) = 0;
  // Called only if the group has several ranks: by all of them, equally often, in the same order.
  virtual absl::Status AllGather(const AllGatherParams& params) {
    return Unimplemented("this backend has no ranks; {} columns to gather", params.num_columns);
  }
  // RmsNorm with the gathered columns as its delta: norm.delta is params.output. A backend need not
  // write them there.
  virtual absl::Status GatherRmsNorm(const AllGatherParams& params,
                                     const kernels::RmsNormParams& norm) {
    LOCKSTEP_RETURN_IF_ERROR(AllGather(params));
    return RmsNorm(norm);
  }
  // K and V of one layer, of this rank's heads.
  virtual kernels::PagedKv KvLayer(int64_t layer) = 0;
  // Embeds the tokens, runs all layers and norms the result at once, for backends that have a
  // faster way to do so with one rank. Called only if the batch wants the logits of all its tokens.
  // Writes workspace.normed. Returns false if nothing was done.
  virtual absl::StatusOr<bool> RunLayers(int64_t /*num_tokens*/, const TokenId* /*token_ids*/) {
    return false;
  }
};

// The ops that need only a stream: a kernels::Stream or a kernels::CudaStream.
template <typename Stream>
class StreamOps : public DecoderOps {
 public:
  // `stream` outlives the object.
  explicit StreamOps(const Stream& stream) : stream_(stream) {}

  absl::Status GatherRows(const kernels::GatherRowsParams& params) override {
    return kernels::GatherRows(stream_, params);
  }
  absl::Status RmsNorm(const kernels::RmsNormParams& params) override {
    return kernels::RmsNorm(stream_, params);
  }
  absl::Status LayerNorm(const kernels::LayerNormParams& params) override {
    return kernels::LayerNorm(stream_, params);
  }
  absl::Status RotaryAppend(const kernels::RotaryAppendParams& params) override {
    return kernels::RotaryAppend(stream_, params);
  }
  // One op after the other; a backend may have a kernel for both.
  absl::Status GatedGemm(const kernels::GemmParams& gate_up,
                         const kernels::SwiGluParams& swiglu) override {
    LOCKSTEP_RETURN_IF_ERROR(this->Gemm(gate_up));
    return kernels::SwiGlu(stream_, swiglu);
  }
  absl::Status GeluGemm(const kernels::GemmParams& product,
                        const kernels::GeluParams& gelu) override {
    LOCKSTEP_RETURN_IF_ERROR(this->Gemm(product));
    return kernels::Gelu(stream_, gelu);
  }

 protected:
  const Stream& stream_;
};

// Where a rank writes its columns of the logits.
struct LogitsColumns {
  float* data = nullptr;  // [num_logits_rows, vocab_size / degree]
  int64_t stride = 0;     // elements between rows
};

// Sizes of one batch whose inputs are in the workspace.
struct PassShape {
  int64_t num_tokens = 0;
  int64_t num_logits_rows = 0;
};

// The one decoder forward pass, for every model of ModelSpec and every backend. Rounding points of
// a layer, each to bf16: the output of every projection (with its bias), q and k after norm and
// rotation, the attention output, the output of the MLP's activation, the residual after each of
// its two additions, and the output of every norm. A learned position is added to the token's
// embedding as the residual's first addition. Logits are not rounded.
//
// In a tensor-parallel group each rank runs the pass on the whole batch. It computes its heads, and
// its columns of every product. After attention, and after the three products that follow, the
// ranks exchange their columns, so each has the whole rows that the next product and norm need.
class DecoderPass {
 public:
  struct Context {
    const ModelSpec* spec = nullptr;   // of the whole model
    const ModelSpec* share = nullptr;  // of this rank, ShareOf(spec, rank)
    TensorRank rank = {};
    const ModelWeights* weights = nullptr;
    const Workspace* workspace = nullptr;
    const float* rope_cos = nullptr;  // [max_context_tokens, head_dim / 2]
    const float* rope_sin = nullptr;
  };
  // Everything outlives the object.
  DecoderPass(const Context& context, DecoderOps& ops) : context_(context), ops_(ops) {}

  // All pointers are to the backend's memory. token_ids: [num_tokens]. logits_tokens:
  // [num_logits_rows], indices of tokens; null: every token.
  absl::Status Run(const PassShape& shape, const TokenId* token_ids, const uint32_t* logits_tokens,
                   const LogitsColumns& logits);

 private:
  // Rows that go through projections together, and where their residual lives.
  struct Rows {
    int64_t count;
    kernels::BFloat16* residual;         // [count, hidden_size]
    const kernels::BFloat16* attention;  // [count, q_size]
  };

  // Writes the tokens' embeddings to workspace.residual. With learned positions, writes the
  // positions' embeddings to workspace.delta, not yet added.
  absl::Status Embed(int64_t num_tokens, const TokenId* token_ids);
  // What is to be added to the residual.
  enum class Delta {
    kNone,
    kWhole,    // workspace.delta
    kColumns,  // workspace.delta; this rank has computed its Columns() of it
  };
  // Adds the delta to the residual, once the ranks have exchanged its columns. Writes the norm of
  // the result to workspace.normed.
  absl::Status Normalize(const PartWeights& norm, kernels::BFloat16* residual, Delta delta,
                         int64_t num_rows);
  // Norm, QKV projection, rotation, append to the KV pool, and attention, for all tokens.
  absl::Status ComputeAttention(int64_t layer, int64_t num_tokens, bool attends);
  // Output projection and MLP; leaves this rank's columns of the MLP's output in workspace.delta,
  // not yet added.
  absl::Status ComputeMlp(int64_t layer, const Rows& rows);
  // From workspace.normed to workspace.activated.
  absl::Status ComputeMlpInput(const PartWeights& weights, int64_t num_rows);
  // Where this rank's columns of `whole` are to be written: to `whole` itself if there is one rank.
  kernels::BFloat16* Columns(kernels::BFloat16* whole) const;
  // The next exchange: completes `whole`, [num_rows, num_columns], once this rank's Columns() of it
  // are written.
  AllGatherParams NextExchange(kernels::BFloat16* whole, int64_t num_rows, int64_t num_columns);
  absl::Status Gather(kernels::BFloat16* whole, int64_t num_rows, int64_t num_columns);
  absl::Status SelectRows(const PassShape& shape, const uint32_t* logits_tokens);
  absl::Status ComputeLogits(const Rows& rows, const LogitsColumns& logits);
  // From workspace.normed.
  absl::Status MultiplyLogits(int64_t num_rows, const LogitsColumns& logits);

  const Context context_;
  DecoderOps& ops_;
  // Which of workspace.exchanged is next. Every pass has an even number of exchanges, so they take
  // turns from pass to pass, too.
  size_t exchange_ = 0;
};

}  // namespace lockstep::worker
