#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "worker/model/layers/flow.h"

namespace lockstep::worker {

// Where a rank writes its columns of the logits.
struct LogitsColumns {
  float* data = nullptr;  // [num_rows, vocab_size / degree]
  int64_t stride = 0;     // elements between rows
};

// The product of the first `num_rows` of workspace.normed, not rounded.
absl::Status MultiplyLogits(const PassContext& context, DecoderOps& ops, int64_t num_rows,
                            const LogitsColumns& logits);

}  // namespace lockstep::worker
