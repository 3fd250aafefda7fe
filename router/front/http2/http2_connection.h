#pragma once

#include <memory>
#include <string_view>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/connection_stream.h"

// Include it in few .cc files only: Asio is heavy.
namespace lockstep::router {

// Serves HTTP/2 on the stream, on whose strand this is called, until it closes. `received`: what
// came of it already, from the client's preface on.
void ServeHttp2(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context);

}  // namespace lockstep::router
