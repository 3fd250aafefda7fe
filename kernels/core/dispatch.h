#pragma once

#include "kernels/core/stream.h"

// Functions that are compiled once per instruction set are declared with LOCKSTEP_DECLARE_PER_ISA
// and called through LOCKSTEP_DISPATCH, which picks the stream's set.
#if defined(LOCKSTEP_X86_KERNELS)

#define LOCKSTEP_DECLARE_PER_ISA(declaration) \
  namespace portable {                        \
  declaration;                                \
  }                                           \
  namespace avx2 {                            \
  declaration;                                \
  }                                           \
  namespace avx512_bf16 {                     \
  declaration;                                \
  }

#define LOCKSTEP_DISPATCH(stream, function, ...) \
  switch ((stream).instruction_set) {            \
    case InstructionSet::kAvx512Bf16:            \
      avx512_bf16::function(__VA_ARGS__);        \
      break;                                     \
    case InstructionSet::kAvx2:                  \
      avx2::function(__VA_ARGS__);               \
      break;                                     \
    case InstructionSet::kPortable:              \
      portable::function(__VA_ARGS__);           \
      break;                                     \
  }

#else

#define LOCKSTEP_DECLARE_PER_ISA(declaration) \
  namespace portable {                        \
  declaration;                                \
  }

#define LOCKSTEP_DISPATCH(stream, function, ...) portable::function(__VA_ARGS__)

#endif
