#pragma once

#include <memory>
#include <string_view>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/connection_stream.h"

// Include this in few .cc files only: Asio is slow to compile.
namespace lockstep::router {

// Serves HTTP/2 on the stream until it closes. Call on the stream's strand. `received`: bytes that
// were already read, beginning with the client's preface.
void ServeHttp2(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context);

}  // namespace lockstep::router
