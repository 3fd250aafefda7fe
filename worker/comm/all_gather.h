#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"

namespace lockstep::worker {

// A matrix with columns that the ranks of a group computed: rank r has columns [r, r + 1) *
// num_columns / degree.
struct AllGatherParams {
  const kernels::BFloat16* columns = nullptr;  // [num_rows, num_columns / degree], of this rank
  kernels::BFloat16* output = nullptr;         // [num_rows, num_columns]
  int64_t num_rows = 0;
  int64_t num_columns = 0;  // the degree divides it
};

}  // namespace lockstep::worker
