#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/connection_stream.h"

namespace lockstep::router {

// Serves the socket, whose executor is a strand or has one thread, until it closes, in what its
// client speaks: HTTP/2 where both sides agreed on it in the TLS handshake, or where a plaintext
// client begins with the 24 bytes of its preface; HTTP/1.1 otherwise. `tls` null: in plaintext.
void ServeConnection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<boost::asio::ssl::context> tls, ConnectionContext& context,
                     ConnectionOrigin origin = {});

}  // namespace lockstep::router
