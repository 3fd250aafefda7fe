#pragma once

#include "router/http/dialects/dialect.h"

namespace lockstep::router {

// POST /v1/responses, of OpenAI. Nothing is kept between requests.
const Dialect& ResponsesDialect();

}  // namespace lockstep::router
