#pragma once

#include <memory>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/stream_handler.h"

namespace lockstep::router {

// Answers a request over HTTP/2 as it would be answered over HTTP/1.1. `context` outlives it.
std::shared_ptr<StreamHandler> OpenHttpStream(ConnectionContext& context,
                                              const StreamRequest& request,
                                              std::shared_ptr<OutputSignal> signal);

}  // namespace lockstep::router
