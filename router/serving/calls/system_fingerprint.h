#pragma once

#include <string>

#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// A hash of everything that decides the output, except the request and its seed: the worker's
// weights, numerics and constraint engine, tokenizer, chat template, defaults, context length, and
// this program. Equal
// fingerprints mean equal output for equal requests with equal seeds. Empty while no worker is
// known, and if workers may differ.
std::string SystemFingerprint(const ApiContext& context);

}  // namespace lockstep::router
