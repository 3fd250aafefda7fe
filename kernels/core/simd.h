#pragma once

#include "kernels/core/simd_lanes.h"

// Vectors of 16 fp32 lanes for the files that are compiled once per instruction set
// (lockstep_kernel_library's ISA_SOURCES). Everything lives in a namespace named after the set.
// Inline functions from elsewhere that such files call are all forced inline. Otherwise the linker
// could give a program a function that was compiled for another processor.
//
// DotPairs is the canonical step of every dot product: two products per lane are added to the
// lane's accumulator, in an order fixed by the instruction set.
#if LOCKSTEP_ISA_LEVEL == 2
#include "kernels/core/simd_avx512.h"
#elif LOCKSTEP_ISA_LEVEL == 1
#include "kernels/core/simd_avx2.h"
#else
#include "kernels/core/simd_portable.h"
#endif
