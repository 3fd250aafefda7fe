#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/messages/step.h"

// Translates the scheduler's plans and outcomes to and from the messages of lockstep.worker.v1.
// Stateless: a result is read against the plan that it belongs to.
namespace lockstep::router {

// If every row has one token, `run_tokens` stays empty. If no row drafts, `draft_limits` stays
// empty. If the batch is repeated, `run_slots` stays empty. If no row grows in a further KV group,
// `grown_groups` stays empty. So an unchanged decode step is a few bytes, plus the blocks that rows
// grow by. Dies if a started slot does not have the blocks of every group in order.
worker::v1::StepRequest EncodeStep(const StepPlan& plan, uint64_t epoch);

// INTERNAL, with the name of the field, if the result contradicts itself or the plan: another step
// id, slots that did not run, repeated slots, more tokens or drafts than scheduled, arrays of
// different lengths. The scheduler checks whether the counts fit the sequences' states. The owner
// of the stream checks epoch and incarnation.
absl::StatusOr<StepOutcome> DecodeResult(const worker::v1::StepResult& result,
                                         const StepPlan& plan);

}  // namespace lockstep::router
