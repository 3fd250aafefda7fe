#pragma once

#include <memory>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/stream_handler.h"

namespace lockstep::router {

// Answers an HTTP/2 request as over HTTP/1.1. `context` must outlive the handler.
std::shared_ptr<StreamHandler> OpenHttpStream(ConnectionContext& context,
                                              const StreamRequest& request,
                                              std::shared_ptr<OutputSignal> signal);

}  // namespace lockstep::router
