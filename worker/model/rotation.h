#pragma once

#include "kernels/rope/rope_table.h"
#include "worker/model/layout/model_spec.h"

namespace lockstep::worker {

// By what q and k are rotated at each position, up to max_context_tokens. With learned positions by
// nothing: cosines are 1 and sines 0.
kernels::RopeTable MakeRotation(const ModelSpec& spec);

}  // namespace lockstep::worker
