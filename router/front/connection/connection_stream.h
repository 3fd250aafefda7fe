#pragma once

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "common/net/tcp_listener.h"
#include "common/strands/strand.h"

// Include it in few .cc files only: Asio is heavy.
namespace lockstep::router {

using TlsContext = boost::asio::ssl::context;

// What a connection has from the server that accepted it.
struct ConnectionOrigin {
  std::shared_ptr<void> place = nullptr;         // kept for as long as the socket is open
  std::shared_ptr<StrandRunner> home = nullptr;  // runs strands, best on the socket's thread
  bool loopback_only = false;                    // the listener is for this machine only
};

// The bytes of a connection, in TLS or not. Lives on the executor of its socket; handlers keep it
// alive, and get the error and the number of bytes. Stays where it was made.
class ConnectionStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Buffers = std::array<boost::asio::const_buffer, 2>;

  // `tls` null: plaintext.
  ConnectionStream(Socket socket, std::shared_ptr<TlsContext> tls, ConnectionOrigin origin)
      : origin_(std::move(origin)), socket_(std::move(socket)), tls_context_(std::move(tls)) {
    boost::system::error_code ignored;
    socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    if (tls_context_ != nullptr) tls_.emplace(socket_, *tls_context_);
  }

  ConnectionStream(const ConnectionStream&) = delete;
  ConnectionStream& operator=(const ConnectionStream&) = delete;

  auto executor() { return socket_.get_executor(); }
  const std::shared_ptr<StrandRunner>& home() const { return origin_.home; }
  bool loopback_only() const { return origin_.loopback_only; }
  bool encrypted() const { return tls_.has_value(); }
  // Of the client.
  ConnectionLimiter::AddressKey address() const { return AddressKeyOf(socket_); }
  // After the handshake: both sides agreed on HTTP/2.
  bool agreed_on_http2() {
    if (!tls_.has_value()) return false;
    const unsigned char* name = nullptr;
    unsigned int num_bytes = 0;
    SSL_get0_alpn_selected(tls_->native_handle(), &name, &num_bytes);
    return std::string_view(reinterpret_cast<const char*>(name), num_bytes) == "h2";
  }

  // Before anything else of an encrypted stream.
  template <typename Handler>
  void Handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <typename Handler>
  void ReadSome(boost::asio::mutable_buffer room, Handler&& handler) {
    if (tls_.has_value()) return tls_->async_read_some(room, std::forward<Handler>(handler));
    socket_.async_read_some(room, std::forward<Handler>(handler));
  }
  // Plaintext only: there is something to read, for which no room is needed before it is there.
  template <typename Handler>
  void AwaitReadable(Handler&& handler) {
    socket_.async_wait(Socket::wait_read, std::forward<Handler>(handler));
  }
  // What the kernel has. Plaintext only; `error` is would_block when it has nothing.
  size_t ReadNow(boost::asio::mutable_buffer room, boost::system::error_code& error) {
    return socket_.read_some(room, error);
  }
  template <typename Handler>
  void WriteSome(const Buffers& buffers, Handler&& handler) {
    if (tls_.has_value()) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // What the kernel takes without waiting. Plaintext only.
  size_t WriteNow(const Buffers& buffers, boost::system::error_code& error) {
    const size_t num_bytes = socket_.write_some(buffers, error);
    if (error == boost::asio::error::would_block) error = {};
    return num_bytes;
  }
  // What the kernel took and the other side has not.
  size_t num_untaken_bytes() {
    int num_bytes = 0;
    return ::ioctl(socket_.native_handle(), SIOCOUTQ, &num_bytes) == 0
               ? static_cast<size_t>(num_bytes)
               : 0;
  }

  // Tells the other side that nothing follows; in TLS the handler hears when that is on its way.
  // Reading goes on, up to the other side's own end.
  template <typename Handler>
  void EndSending(Handler&& handler) {
    if (tls_.has_value()) {
      // SSL_shutdown, which is called before async_shutdown returns, waits for the other side's end
      // as well and fails at data before it, unless that end seems to have come.
      SSL_set_shutdown(tls_->native_handle(), SSL_RECEIVED_SHUTDOWN);
      tls_->async_shutdown(std::forward<Handler>(handler));
      SSL_set_shutdown(tls_->native_handle(), SSL_SENT_SHUTDOWN);
      return;
    }
    boost::system::error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void Close() {
    boost::system::error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    socket_.close(ignored);
  }

 private:
  const ConnectionOrigin origin_;
  Socket socket_;
  const std::shared_ptr<TlsContext> tls_context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace lockstep::router
