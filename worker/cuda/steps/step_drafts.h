#pragma once

#include <cstdint>

namespace lockstep::worker {

// Where the drafts of a CUDA worker come from.
enum class CudaDraftSource {
  kNone,     // it drafts nothing
  kRepeats,  // what followed the last tokens where they occurred before (draft_tokens.h)
  kScript,   // StepRunner::SetDraftScript, for tests and benchmarks
};

struct CudaDrafts {
  CudaDraftSource source = CudaDraftSource::kNone;
  uint32_t max_tokens = 0;  // for a row; 0 with kNone alone

  bool exist() const { return source != CudaDraftSource::kNone; }
};

}  // namespace lockstep::worker
