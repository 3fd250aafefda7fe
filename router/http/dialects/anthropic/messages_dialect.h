#pragma once

#include "router/http/dialects/dialect.h"

namespace lockstep::router {

// POST /v1/messages of Anthropic's API. Also writes the errors of /v1/messages/count_tokens.
const Dialect& MessagesDialect();

}  // namespace lockstep::router
