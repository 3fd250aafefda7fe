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
#include "router/strands/strand.h"

// Include this in few .cc files only: Asio is slow to compile.
namespace lockstep::router {

using TlsContext = boost::asio::ssl::context;

// What the accepting server gives to a connection.
struct ConnectionOptions {
  std::shared_ptr<void> ticket = nullptr;  // released when the socket closes
  std::shared_ptr<StrandRunner> connection_runner =
      nullptr;                 // runs strands, best on the socket's thread
  bool loopback_only = false;  // the listener accepts only this machine
};

// The bytes of a connection, with or without TLS. Lives on the executor of its socket and is never
// moved. The handlers passed in must keep it alive; they get the error and the number of bytes.
class ConnectionStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Buffers = std::array<boost::asio::const_buffer, 2>;

  // `tls` null: plaintext.
  ConnectionStream(Socket socket, std::shared_ptr<TlsContext> tls, ConnectionOptions options)
      : options_(std::move(options)), socket_(std::move(socket)), tls_context_(std::move(tls)) {
    boost::system::error_code ignored;
    socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    if (tls_context_ != nullptr) tls_.emplace(socket_, *tls_context_);
  }

  ConnectionStream(const ConnectionStream&) = delete;
  ConnectionStream& operator=(const ConnectionStream&) = delete;

  auto executor() { return socket_.get_executor(); }
  const std::shared_ptr<StrandRunner>& connection_runner() const {
    return options_.connection_runner;
  }
  bool loopback_only() const { return options_.loopback_only; }
  bool encrypted() const { return tls_.has_value(); }
  // The client's address.
  ConnectionLimiter::AddressKey address() const { return AddressKeyOf(socket_); }
  // True if ALPN chose HTTP/2. Call after the handshake.
  bool agreed_on_http2() {
    if (!tls_.has_value()) return false;
    const unsigned char* name = nullptr;
    unsigned int num_bytes = 0;
    SSL_get0_alpn_selected(tls_->native_handle(), &name, &num_bytes);
    return std::string_view(reinterpret_cast<const char*>(name), num_bytes) == "h2";
  }

  // With TLS only: must come before any read or write.
  template <typename Handler>
  void Handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <typename Handler>
  void ReadSome(boost::asio::mutable_buffer room, Handler&& handler) {
    if (tls_.has_value()) return tls_->async_read_some(room, std::forward<Handler>(handler));
    socket_.async_read_some(room, std::forward<Handler>(handler));
  }
  // Plaintext only: waits until there is something to read, without holding a buffer meanwhile.
  template <typename Handler>
  void AwaitReadable(Handler&& handler) {
    socket_.async_wait(Socket::wait_read, std::forward<Handler>(handler));
  }
  // Plaintext only: reads what the kernel has. `error` is would_block if it has nothing.
  size_t ReadNow(boost::asio::mutable_buffer room, boost::system::error_code& error) {
    return socket_.read_some(room, error);
  }
  template <typename Handler>
  void WriteSome(const Buffers& buffers, Handler&& handler) {
    if (tls_.has_value()) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // Plaintext only: writes what the kernel takes without waiting.
  size_t WriteNow(const Buffers& buffers, boost::system::error_code& error) {
    const size_t num_bytes = socket_.write_some(buffers, error);
    if (error == boost::asio::error::would_block) error = {};
    return num_bytes;
  }
  // Bytes that the kernel took and the peer has not acknowledged.
  size_t num_untaken_bytes() {
    int num_bytes = 0;
    return ::ioctl(socket_.native_handle(), SIOCOUTQ, &num_bytes) == 0
               ? static_cast<size_t>(num_bytes)
               : 0;
  }

  // Tells the peer that nothing follows. With TLS, the handler is called once that was sent.
  // Reading continues until the peer ends its side.
  template <typename Handler>
  void EndSending(Handler&& handler) {
    if (tls_.has_value()) {
      // async_shutdown calls SSL_shutdown before it returns. SSL_shutdown would also wait for the
      // peer's end and fail if data comes first. So that end is marked as received meanwhile.
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
  const ConnectionOptions options_;
  Socket socket_;
  const std::shared_ptr<TlsContext> tls_context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace lockstep::router
