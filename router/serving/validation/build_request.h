#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "lockstep/v1/generation.pb.h"
#include "router/core/messages/request.h"
#include "router/serving/validation/request_validator.h"

// Turns a client's checked message into an immutable Request. Pure.
namespace lockstep::router {

// Facts about a request that its message does not contain.
struct RequestContext {
  RequestKey key = 0;
  std::string made_up_id;                       // used if the client gave none
  uint64_t drawn_seed = 0;                      // used if the client gave none
  std::vector<TokenId> forbidden_tokens;        // sorted; the tokens of its bad_words
  std::optional<RequestConstraint> constraint;  // checked; none: the client gave none
  Instant now;
  Instant deadline = Instant::InfiniteFuture();
};

// `request` must have passed CheckRequest. `prompt_tokens`: the whole prompt. DEADLINE_EXCEEDED if
// the deadline has passed.
absl::StatusOr<Request> BuildRequest(const lockstep::v1::GenerateRequest& request,
                                     std::vector<TokenId> prompt_tokens,
                                     const RequestLimits& limits, const ModelFacts& model,
                                     const RequestContext& context);

}  // namespace lockstep::router
