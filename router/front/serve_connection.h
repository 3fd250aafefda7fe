#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "router/engine/strand.h"
#include "router/http/http_connection.h"

namespace lockstep::router {

// Serves the socket, whose executor is a strand or has one thread, until it closes, in what its
// client speaks: HTTP/2 where both sides agreed on it in the TLS handshake, or where a plaintext
// client begins with the 24 bytes of its preface; HTTP/1.1 otherwise. `tls` null: in plaintext.
// `place` is kept until the socket is closed; `home` runs the strands of its requests, best on the
// thread of its socket.
void ServeConnection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<boost::asio::ssl::context> tls, ConnectionContext& context,
                     std::shared_ptr<void> place = nullptr,
                     std::shared_ptr<StrandRunner> home = nullptr);

}  // namespace lockstep::router
