#pragma once

#include <memory>

#include "router/http/dialects/responses/responses_writer.h"

namespace lockstep::router {

// Writes a response as server-sent events, each with its name and number.
std::unique_ptr<ResponsesWriter> MakeResponseStream(AnswerFacts facts,
                                                    const ResponsesRequest& request);

}  // namespace lockstep::router
