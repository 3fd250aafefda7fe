#pragma once

#include <memory>
#include <string_view>

#include "router/front/connection/connection_context.h"

namespace lockstep::router {

class ConnectionStream;

// Serves HTTP/1.1 on the stream until it closes. Call on the stream's strand. `received`: bytes
// that were already read.
void ServeHttp1(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context);

}  // namespace lockstep::router
