#pragma once

#include <absl/status/status.h>

#include "kernels/device/cuda_stream.h"
#include "kernels/exchange/exchange.h"
#include "kernels/norm/rms_norm.h"

// Exchange and RmsNorm as one kernel, for the few rows of a decode step: the ranks' columns go
// straight into the sum. The bits are those of the two ops.
namespace lockstep::kernels {

struct GatheredRmsNormParams {
  ExchangeGroup group;
  // norm.delta: [num_rows, size / degree], the columns of this rank
  RmsNormParams norm;
};

// A row is a block. Every block waits for other ranks, so all blocks must find room at the same
// time: two on each multiprocessor. Four ranks that share a device, as in tests, need 128 of them.
constexpr int64_t MaxGatheredNormRows(const ExchangeGroup& group) {
  return group.shares_a_device ? 64 : 2 * kMinExchangeMultiprocessors;
}

// Whether GatheredRmsNorm takes these sizes.
bool GathersInNorm(const GatheredRmsNormParams& params);

// A call of the group like Exchange, with the same rules.
absl::Status GatheredRmsNorm(const CudaStream& stream, const GatheredRmsNormParams& params);

}  // namespace lockstep::kernels
