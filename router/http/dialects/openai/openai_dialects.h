#pragma once

#include "router/http/dialects/dialect.h"

// OpenAI's two APIs for text generation.
namespace lockstep::router {

// POST /v1/completions.
const Dialect& CompletionDialect();
// POST /v1/chat/completions.
const Dialect& ChatDialect();

}  // namespace lockstep::router
