#pragma once

#include <memory>
#include <string_view>

#include "router/front/connection/connection_context.h"

namespace lockstep::router {

class ConnectionStream;

// Serves HTTP/1.1 on the stream, on whose strand this is called, until it closes. `received`: what
// came of it already.
void ServeHttp1(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context);

}  // namespace lockstep::router
