#pragma once

#include <absl/status/statusor.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <utility>

#include "common/net/address.h"
#include "common/net/connection_limiter.h"

// The listening socket of a server on Asio. Include this in few .cc files only: Asio is slow to
// compile.
namespace lockstep {

// The key of the socket's remote address, for counting its connections.
ConnectionLimiter::AddressKey AddressKeyOf(const boost::asio::ip::tcp::socket& socket);

// Accepts connections. Every socket gets a strand of its own, unless `next_executor` gives an
// executor. While the process has no free file descriptors, new connections are closed at once, so
// that clients do not wait for nothing. The listener then checks ten times a second for free
// descriptors. `io` must outlive the object, and must be stopped before the object is destroyed.
class TcpListener {
 public:
  using OnConnection = std::function<void(boost::asio::ip::tcp::socket)>;
  // Called when connections cannot be accepted any more, and when they can again.
  using OnAccepting = std::function<void(bool accepting)>;
  // Returns the executor of the next socket. It must run one handler at a time. Called after the
  // socket was accepted.
  using NextExecutor = std::function<boost::asio::any_io_executor()>;

  TcpListener(boost::asio::io_context& io, OnConnection on_connection,
              OnAccepting on_accepting = nullptr, NextExecutor next_executor = nullptr)
      : io_(io),
        acceptor_(io),
        retry_timer_(io),
        on_connection_(std::move(on_connection)),
        on_accepting_(std::move(on_accepting)),
        next_executor_(std::move(next_executor)) {}
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  ~TcpListener();

  // Returns the bound port. INVALID_ARGUMENT or UNAVAILABLE names the address.
  absl::StatusOr<uint16_t> Listen(const Address& address);
  // Accepts connections from now on, as long as `io` runs.
  void Accept();

 private:
  boost::system::error_code ListenOn(const boost::asio::ip::tcp::endpoint& endpoint);
  void OnAccept(boost::system::error_code error, boost::asio::ip::tcp::socket socket);
  // False: the socket cannot be moved, and its connection closes with `socket`.
  bool MoveTo(const boost::asio::any_io_executor& executor, boost::asio::ip::tcp::socket& socket);
  void RetryLater();
  void Retry();
  void SetAccepting(bool accepting);
  void TurnAway();

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  const OnConnection on_connection_;
  const OnAccepting on_accepting_;
  const NextExecutor next_executor_;  // null: a strand of io_
  bool accepting_ = true;
  int spare_fd_ = -1;  // closed for a moment, to accept connections and close them
};

}  // namespace lockstep
