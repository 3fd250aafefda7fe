#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "router/front/connection/connection_context.h"
#include "router/front/connection/connection_stream.h"

namespace lockstep::router {

// Detects the protocol and serves HTTP/2 or HTTP/1.1 until the socket closes. With TLS, ALPN
// decides. Plaintext (`tls` is null) is HTTP/2 if it begins with the 24-byte preface. The socket's
// executor must be a strand or have one thread.
void ServeConnection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<boost::asio::ssl::context> tls, ConnectionContext& context,
                     ConnectionOptions options = {});

}  // namespace lockstep::router
