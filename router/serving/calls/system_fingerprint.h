#pragma once

#include <string>

#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// Names everything beside a request and its seed that its output depends on: the worker's weights
// and numerics, tokenizer, chat template, defaults, the room in the context, and this program.
// Equal ones mean equal output for equal requests with equal seeds. Empty while no worker is known,
// and where workers may differ.
std::string SystemFingerprint(const ApiContext& context);

}  // namespace lockstep::router
