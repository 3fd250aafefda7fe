#include "common/tcp_listener.h"

#include <boost/asio/strand.hpp>
#include <chrono>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAcceptRetryDelay = std::chrono::milliseconds(100);

}  // namespace

error_code TcpListener::ListenOn(const tcp::endpoint& endpoint) {
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    error_code ignored;
    acceptor_.close(ignored);
  }
  return error;
}

absl::StatusOr<uint16_t> TcpListener::Listen(const Address& address) {
  error_code error;
  tcp::resolver resolver(io_);
  const auto endpoints = resolver.resolve(address.host, fmt::format("{}", address.port),
                                          tcp::resolver::passive, error);
  if (error) {
    return InvalidArgument("cannot resolve {}: {}", FormatAddress(address), error.message());
  }
  for (const auto& entry : endpoints) {
    error = ListenOn(entry.endpoint());
    if (error) continue;
    const uint16_t port = acceptor_.local_endpoint(error).port();
    if (!error) return port;
  }
  return Unavailable("cannot listen on {}: {}", FormatAddress(address), error.message());
}

void TcpListener::Accept() {
  acceptor_.async_accept(asio::make_strand(io_), [this](error_code error, tcp::socket socket) {
    OnAccept(error, std::move(socket));
  });
}

void TcpListener::OnAccept(error_code error, tcp::socket socket) {
  if (error) {
    // Out of descriptors, most likely: trying again at once would spin.
    retry_timer_.expires_after(kAcceptRetryDelay);
    retry_timer_.async_wait([this](error_code) { Accept(); });
    return;
  }
  on_connection_(std::move(socket));
  Accept();
}

}  // namespace lockstep
