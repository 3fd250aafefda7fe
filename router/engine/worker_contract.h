#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/scheduler.h"

namespace lockstep::router {

// The step protocol that this router speaks, and the oldest it accepts: the version before, once
// there is one.
inline constexpr uint32_t kStepProtocolVersion = 1;
inline constexpr uint32_t kOldestStepProtocolVersion = 1;

// What the router loaded and a worker must agree with.
struct ExpectedModel {
  uint64_t model_fingerprint = 0;
  uint64_t tokenizer_fingerprint = 0;  // common/tokenizer_fingerprint.h
  uint32_t vocab_size = 0;             // of the model
};

// Workers that agree in both compute the same bits.
struct WorkerBits {
  uint64_t numerics_id = 0;
  uint64_t weights_fingerprint = 0;
  bool operator==(const WorkerBits&) const = default;
};
WorkerBits BitsOf(const worker::v1::DescribeResponse& description);

// FAILED_PRECONDITION naming every field that does not fit. A worker whose model came without a
// tokenizer announces a tokenizer fingerprint of 0, which fits any.
absl::Status CheckDescription(const worker::v1::DescribeResponse& description,
                              const ExpectedModel& expected);

// Of a description that passed the check.
WorkerLimits LimitsOf(const worker::v1::DescribeResponse& description);

}  // namespace lockstep::router
