#pragma once

#include "kernels/attention/paged_attention.h"
#include "kernels/core/dispatch.h"

namespace lockstep::kernels {

inline constexpr int64_t kMaxAttentionHeadDim = 512;

// The work of one of `num_tasks` tasks: every num_tasks-th tile of query rows, starting with tile
// `index`, so that the long rows at the end of a chunk are spread over all.
LOCKSTEP_DECLARE_PER_ISA(void AttendShare(const PagedAttentionParams& params, int index,
                                          int num_tasks))

}  // namespace lockstep::kernels
