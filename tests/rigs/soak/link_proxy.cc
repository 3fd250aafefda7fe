#include "tests/rigs/soak/link_proxy.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <utility>

#include "common/net/address.h"
#include "common/status.h"

namespace lockstep::bench {

using boost::asio::ip::tcp;
using Error = boost::system::error_code;

// One connection of the router and the one to the worker that belongs to it.
class LinkProxy::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket router, boost::asio::io_context& context)
      : router_(std::move(router)), worker_(context) {}

  void Open(const tcp::endpoint& worker) {
    worker_.async_connect(worker, [self = shared_from_this()](Error error) {
      if (error) return self->Close();
      Error ignored;
      self->router_.set_option(tcp::no_delay(true), ignored);
      self->worker_.set_option(tcp::no_delay(true), ignored);
      self->Pass(self->router_, self->worker_, self->to_worker_);
      self->Pass(self->worker_, self->router_, self->to_router_);
    });
  }

  void Freeze() { frozen_ = true; }

 private:
  using Buffer = std::array<char, 16384>;

  void Pass(tcp::socket& from, tcp::socket& to, Buffer& buffer) {
    if (frozen_) return;
    from.async_read_some(boost::asio::buffer(buffer), [self = shared_from_this(), &from, &to,
                                                       &buffer](Error error, size_t num_bytes) {
      if (self->frozen_) return;
      if (error) return self->Close();
      boost::asio::async_write(to, boost::asio::buffer(buffer, num_bytes),
                               [self, &from, &to, &buffer](Error failed, size_t) {
                                 if (self->frozen_) return;
                                 if (failed) return self->Close();
                                 self->Pass(from, to, buffer);
                               });
    });
  }

  void Close() {
    Error ignored;
    router_.close(ignored);
    worker_.close(ignored);
  }

  tcp::socket router_;
  tcp::socket worker_;
  bool frozen_ = false;
  Buffer to_worker_;
  Buffer to_router_;
};

absl::StatusOr<std::unique_ptr<LinkProxy>> LinkProxy::Start(const std::string& worker_address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Address address, ParseAddress(worker_address));
  Error error;
  const auto host = boost::asio::ip::make_address(address.host, error);
  if (error) return InvalidArgument("{}: expected a numeric address", worker_address);
  std::unique_ptr<LinkProxy> proxy(new LinkProxy(tcp::endpoint(host, address.port)));
  LOCKSTEP_RETURN_IF_ERROR(proxy->Listen());
  return proxy;
}

LinkProxy::LinkProxy(tcp::endpoint worker) : worker_(std::move(worker)) {}

absl::Status LinkProxy::Listen() {
  Error error;
  acceptor_.open(tcp::v4(), error);
  if (!error) {
    acceptor_.bind(tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0), error);
  }
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return Internal("proxy: {}", error.message());
  address_ = fmt::format("127.0.0.1:{}", acceptor_.local_endpoint().port());
  Accept();
  thread_ = NamedThread("link-proxy", [this] { context_.run(); });
  return absl::OkStatus();
}

LinkProxy::~LinkProxy() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void LinkProxy::Accept() {
  acceptor_.async_accept([this](Error error, tcp::socket socket) {
    if (!error) {
      const auto connection = std::make_shared<Connection>(std::move(socket), context_);
      std::erase_if(open_, [](const auto& other) { return other.expired(); });
      open_.push_back(connection);
      connection->Open(worker_);
    }
    Accept();
  });
}

uint32_t LinkProxy::Freeze() {
  std::promise<uint32_t> num_frozen;
  boost::asio::post(context_, [this, &num_frozen] {
    uint32_t count = 0;
    for (const auto& weak : open_) {
      const std::shared_ptr<Connection> connection = weak.lock();
      if (connection == nullptr) continue;
      connection->Freeze();
      frozen_.push_back(connection);
      ++count;
    }
    open_.clear();
    num_frozen.set_value(count);
  });
  return num_frozen.get_future().get();
}

}  // namespace lockstep::bench
