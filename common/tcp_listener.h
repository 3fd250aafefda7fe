#pragma once

#include <absl/status/statusor.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <utility>

#include "common/address.h"

// The listening socket of a server on Asio. Include it in few .cc files only: Asio is heavy.
namespace lockstep {

// Every socket gets a strand of its own. Outlived by `io`, which is stopped before.
class TcpListener {
 public:
  using OnConnection = std::function<void(boost::asio::ip::tcp::socket)>;

  TcpListener(boost::asio::io_context& io, OnConnection on_connection)
      : io_(io), acceptor_(io), retry_timer_(io), on_connection_(std::move(on_connection)) {}

  // The port as bound. INVALID_ARGUMENT or UNAVAILABLE naming the address.
  absl::StatusOr<uint16_t> Listen(const Address& address);
  // From now on, as long as `io` runs.
  void Accept();

 private:
  boost::system::error_code ListenOn(const boost::asio::ip::tcp::endpoint& endpoint);
  void OnAccept(boost::system::error_code error, boost::asio::ip::tcp::socket socket);

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  const OnConnection on_connection_;
};

}  // namespace lockstep
