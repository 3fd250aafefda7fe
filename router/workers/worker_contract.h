#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/scheduler.h"

namespace lockstep::router {

// The step protocol that this router speaks, and the oldest version that it accepts. A worker of
// that version has one KV group.
inline constexpr uint32_t kStepProtocolVersion = 2;
inline constexpr uint32_t kOldestStepProtocolVersion = 1;

// The most that a worker may announce. Each limit is far above what any worker has. The limits keep
// what the router allocates for one worker below 1 GiB.
inline constexpr uint32_t kMaxWorkerKvGroups = 4;
inline constexpr uint32_t kMaxWorkerBlocks = 1u << 22;  // of all groups
inline constexpr uint32_t kMaxWorkerBlockSizeTokens = 1024;
inline constexpr uint64_t kMaxWorkerCacheTokens = 1u
                                                  << 26;  // blocks of all groups times their size
inline constexpr uint32_t kMaxWorkerSlots = 1u << 16;
inline constexpr uint32_t kMaxWorkerStepTokens = 1u << 20;
inline constexpr uint32_t kMaxWorkerContextTokens = 1u << 24;
inline constexpr uint32_t kMaxWorkerWindowTokens = kMaxWorkerContextTokens;
inline constexpr uint32_t kMaxWorkerLogprobs = 1024;
inline constexpr uint32_t kMaxWorkerStepsInFlight = 64;
inline constexpr uint32_t kMaxWorkerDecodeIterations = 1024;
inline constexpr uint32_t kMaxWorkerDraftTokens = 16;  // for a row
inline constexpr size_t kMaxWorkerNameBytes = 128;  // of the device's name and of each dtype's name
inline constexpr size_t kMaxDescriptionBytes = 64u << 10;  // of the whole description

// What the router loaded. A worker must agree with it.
struct ExpectedModel {
  uint64_t model_fingerprint = 0;
  uint64_t tokenizer_fingerprint = 0;  // common/model_files/tokenizer/tokenizer_fingerprint.h
  uint32_t vocab_size = 0;             // of the model
};

// Workers with equal values of both compute the same bits.
struct WorkerBits {
  uint64_t numerics_id = 0;
  uint64_t weights_fingerprint = 0;
  bool operator==(const WorkerBits&) const = default;
};
WorkerBits BitsOf(const worker::v1::DescribeResponse& description);

// Of the version of a constraint engine; 0: there is none. Engines with equal versions compute the
// same masks.
uint64_t ConstraintEngineHash(std::string_view version);

// FAILED_PRECONDITION names every field that does not fit, its value, and the expected value. A
// worker without a tokenizer file announces tokenizer fingerprint 0, which always fits.
absl::Status CheckDescription(const worker::v1::DescribeResponse& description,
                              const ExpectedModel& expected);

// `description` must have passed CheckDescription.
WorkerLimits LimitsOf(const worker::v1::DescribeResponse& description);

// The most bytes that a StepResult of this worker can have, by the limits that it announced.
// `description` must have passed CheckDescription.
size_t MaxResultBytes(const worker::v1::DescribeResponse& description);

}  // namespace lockstep::router
