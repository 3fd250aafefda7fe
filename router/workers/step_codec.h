#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/messages/step.h"

// Translation between the scheduler's plans and outcomes and the messages of lockstep.worker.v1.
// Stateless: what a message means is decided by the plan it belongs to.
namespace lockstep::router {

// Rows of one token each leave `run_tokens` empty and a repeated batch leaves `run_slots` empty, so
// an unchanged decode step is a few bytes plus the blocks that it grows by.
worker::v1::StepRequest EncodeStep(const StepPlan& plan, uint64_t epoch);

// INTERNAL naming the field when the result contradicts itself or the plan: another step id, slots
// that did not run, repeated slots, more tokens than scheduled, arrays of different lengths.
// Whether the counts fit the sequences' states is for the scheduler to check; epoch and incarnation
// are the stream owner's.
absl::StatusOr<StepOutcome> DecodeResult(const worker::v1::StepResult& result,
                                         const StepPlan& plan);

}  // namespace lockstep::router
