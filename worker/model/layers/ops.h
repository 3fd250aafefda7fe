#pragma once

#include <absl/status/status.h>

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
#include "worker/model/plan/layer_kind.h"

namespace lockstep::worker {

// What the attention of one layer reads and writes: all heads, or those of this rank.
struct AttentionInputs {
  const kernels::BFloat16* query = nullptr;  // [num_tokens, num_heads, head_dim]
  int64_t query_stride = 0;                  // elements between tokens
  kernels::BFloat16* output = nullptr;       // [num_tokens, num_heads * head_dim]
  kernels::PagedKv kv;
  const AttentionPlan* attention = nullptr;  // this rank's share
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
  // K and V of the layer that has this index in its KV group, of this rank's heads.
  virtual kernels::PagedKv KvLayer(size_t kv_group, int64_t index) = 0;
};

// The ops that need only a stream: a kernels::Stream or a kernels::CudaStream.
template <typename Stream>
class StreamOps : public DecoderOps {
 public:
  // `stream` outlives the object.
  explicit StreamOps(const Stream& stream) : stream_(stream) {}

  const Stream& stream() const { return stream_; }

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

}  // namespace lockstep::worker
