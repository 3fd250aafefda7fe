#include "common/net/tcp_listener.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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
constexpr int kMaxTurnedAwayAtOnce = 256;

bool IsShortage(const error_code& error) {
  return error == asio::error::no_descriptors || error == asio::error::no_memory ||
         error == asio::error::no_buffer_space || error.value() == ENFILE;
}

int OpenSpare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

ConnectionLimiter::AddressKey AddressKeyOf(const tcp::socket& socket) {
  error_code error;
  const asio::ip::address address = socket.remote_endpoint(error).address();
  ConnectionLimiter::AddressKey key = {};
  if (error) return key;
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::copy(bytes.begin(), bytes.end(), key.begin());
    return key;
  }
  const auto bytes = address.to_v6().to_bytes();
  // An IPv4 client of a dual-stack listener.
  const bool mapped = address.to_v6().is_v4_mapped();
  std::copy_n(bytes.begin() + (mapped ? 12 : 0), mapped ? 4 : 8, key.begin());
  return key;
}

TcpListener::~TcpListener() {
  if (spare_fd_ >= 0) ::close(spare_fd_);
}

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
  if (spare_fd_ < 0) spare_fd_ = OpenSpare();
  const asio::any_io_executor executor = next_executor_ == nullptr
                                             ? asio::any_io_executor(asio::make_strand(io_))
                                             : asio::any_io_executor(io_.get_executor());
  acceptor_.async_accept(executor, [this](error_code error, tcp::socket socket) {
    OnAccept(error, std::move(socket));
  });
}

void TcpListener::OnAccept(error_code error, tcp::socket socket) {
  if (error) {
    if (IsShortage(error)) {
      spdlog::warn("connections are turned away: {}", error.message());
      SetAccepting(false);
      TurnAway();
    }
    return RetryLater();
  }
  if (next_executor_ == nullptr || MoveTo(next_executor_(), socket)) {
    on_connection_(std::move(socket));
  }
  Accept();
}

bool TcpListener::MoveTo(const asio::any_io_executor& executor, tcp::socket& socket) {
  if (executor == socket.get_executor()) return true;
  error_code error;
  const tcp::endpoint local = socket.local_endpoint(error);
  tcp::socket moved(executor);
  if (!error) {
    const int fd = socket.release(error);
    if (!error && moved.assign(local.protocol(), fd, error)) ::close(fd);
  }
  if (error) {
    spdlog::warn("a connection is closed: {}", error.message());
    return false;
  }
  socket = std::move(moved);
  return true;
}

// With a pause, because an immediate retry would spin.
void TcpListener::RetryLater() {
  retry_timer_.expires_after(kAcceptRetryDelay);
  retry_timer_.async_wait([this](error_code error) {
    if (!error) Retry();
  });
}

void TcpListener::Retry() {
  if (!accepting_) {
    const int probe = OpenSpare();
    if (probe < 0) {
      TurnAway();
      return RetryLater();
    }
    ::close(probe);
    spdlog::info("connections are accepted again");
    SetAccepting(true);
  }
  Accept();
}

void TcpListener::SetAccepting(bool accepting) {
  if (std::exchange(accepting_, accepting) == accepting || on_accepting_ == nullptr) return;
  on_accepting_(accepting);
}

// Closes the waiting connections, so that their clients need not wait for nothing.
void TcpListener::TurnAway() {
  if (spare_fd_ < 0) return;
  ::close(spare_fd_);
  for (int i = 0; i < kMaxTurnedAwayAtOnce; ++i) {
    const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) break;
    ::close(fd);
  }
  spare_fd_ = OpenSpare();
}

}  // namespace lockstep
