#include "worker/model/layers/logits.h"

namespace lockstep::worker {

absl::Status MultiplyLogits(const PassContext& context, DecoderOps& ops, int64_t num_rows,
                            const LogitsColumns& logits) {
  return ops.Gemm({.input = context.workspace->normed,
                   .input_stride = context.plan->hidden_size,
                   .weights = context.weights->model[ModelPart::kLmHead].matrix,
                   .output_f32 = logits.data,
                   .output_stride = logits.stride,
                   .num_rows = num_rows});
}

}  // namespace lockstep::worker
