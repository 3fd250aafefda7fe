#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/net/address.h"

namespace prometheus {
class Collectable;
}

namespace lockstep {

struct HealthReport {
  bool ok = false;
  std::string text;  // one line for people: why it is or is not healthy
};

// What the server shows. It calls the functions on its thread: they must be safe to call from
// another thread, and must not block.
struct AdminPages {
  std::shared_ptr<const prometheus::Collectable> metrics;
  std::function<HealthReport()> health;
  std::function<HealthReport()> liveness = nullptr;  // null: alive as long as it answers
  std::function<std::string()> status = nullptr;     // null: there is no such page
};

struct AdminServerLimits {
  // Above a bound, the connection that has waited longest for a request is closed. If none waits,
  // the new one is closed.
  uint32_t max_connections = 64;
  uint32_t max_connections_per_address = 16;  // 0: no bound of its own
  // For a request's header to arrive, for a reply to be taken, and between two requests.
  absl::Duration io_timeout = absl::Seconds(10);
};

// HTTP/1.1 listener of a process for monitoring, off the request path:
//   GET /metrics  the metrics in Prometheus' text format
//   GET /healthz  200 or 503 with the health report's text
//   GET /livez    200 as long as the process lives, healthy or not; 503 if `liveness` says so
//   GET /status.json  what `status` says, if it is given
// HEAD of each gets the same head. Anything else is 404, another method 405, a request with a body
// 413, a header over 8 KiB 431. On a loopback address a Host that is neither a name of this machine
// nor a number gets 403: a web page's owner may have pointed that name at this machine (DNS
// rebinding). Owns its listening socket, its connections and one thread ("admin").
class AdminServer {
 public:
  // `address` is "host:port", host a name or number; port 0 takes a free one. Returns once it
  // listens; errors name the address.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                            AdminPages pages,
                                                            AdminServerLimits limits = {});

  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;
  // Closes every connection and joins the thread, within milliseconds.
  ~AdminServer();

  uint16_t port() const { return address_.port; }
  const Address& address() const { return address_; }  // host as asked for, port as bound

 private:
  class Impl;
  AdminServer(Address address, std::unique_ptr<Impl> impl);

  const Address address_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
