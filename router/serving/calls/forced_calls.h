#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>

#include "common/constraints/constraint.h"
#include "common/runtime/cancel_flag.h"
#include "lockstep/v1/generation.pb.h"
#include "router/constraints/constraint_checker.h"
#include "router/serving/output/output_reading.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// The constraint of an output that must call tools of the chat. `reading` has forced calls. Waits
// for the engine, if the constraint is not known yet. INVALID_ARGUMENT and UNIMPLEMENTED name the
// tool whose schema cannot be enforced, "chat.tools_json[2].function.parameters: ...", or the
// choice, or the tools together if their grammar is too large. UNAVAILABLE and CANCELLED
// as in ConstraintChecker::Check.
absl::StatusOr<Constraint> CheckForcedCalls(const lockstep::v1::ChatPrompt& chat,
                                            const OutputReading& reading,
                                            const Tokenizer& tokenizer, ConstraintChecker& checker,
                                            const CancelFlag* cancellation);

// Finds the tool at fault. The engine has refused `num_tools` tools together, with the status
// `all`. `check_alone` checks one tool, by its index. Returns the first refusal of a tool. Returns
// `all` if no tool is refused, if the search takes too long, or if a check comes to no verdict.
absl::Status WhichTool(const absl::Status& all, size_t num_tools,
                       const std::function<absl::Status(size_t)>& check_alone);

}  // namespace lockstep::router
