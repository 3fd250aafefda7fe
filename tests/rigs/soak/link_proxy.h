#pragma once

#include <absl/status/statusor.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/named_thread.h"

namespace lockstep::bench {

// A TCP proxy in front of one worker whose connections can go half open: nothing passes any more,
// in either direction, and nobody is told. New connections pass, as after a router or a firewall on
// the way has lost its tables. Owns one thread, on which everything happens.
class LinkProxy {
 public:
  static absl::StatusOr<std::unique_ptr<LinkProxy>> Start(const std::string& worker_address);
  ~LinkProxy();

  const std::string& address() const { return address_; }
  // From its return on the connections that are open pass nothing more. How many there were.
  uint32_t Freeze();

 private:
  class Connection;

  explicit LinkProxy(boost::asio::ip::tcp::endpoint worker);
  absl::Status Listen();
  void Accept();

  const boost::asio::ip::tcp::endpoint worker_;
  std::string address_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_};
  std::vector<std::weak_ptr<Connection>> open_;      // the thread's
  std::vector<std::shared_ptr<Connection>> frozen_;  // the thread's; kept, so that nothing closes
  NamedThread thread_;
};

}  // namespace lockstep::bench
