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

// The content that the server shows. The server calls the functions on its own thread. They must be
// safe to call from there and must not block.
struct AdminPages {
  std::shared_ptr<const prometheus::Collectable> metrics;
  std::function<HealthReport()> health;
  std::function<HealthReport()> liveness = nullptr;  // null: always alive
  std::function<std::string()> status = nullptr;     // null: no such page
};

struct AdminServerLimits {
  // Above a bound, the connection that has waited longest for a request is closed. If none waits,
  // the new one is closed.
  uint32_t max_connections = 64;
  uint32_t max_connections_per_address = 16;  // 0: no limit
  // For the arrival of a request's header, for sending a reply, and between two requests.
  absl::Duration io_timeout = absl::Seconds(10);
};

// HTTP/1.1 listener of a process for monitoring, off the request path:
//   GET /metrics      the metrics in Prometheus' text format
//   GET /healthz      200 or 503 with the health report's text
//   GET /livez        200 while the process lives, even if unhealthy; 503 if `liveness` says so
//   GET /status.json  the result of `status`, if it is set
// HEAD gets the same head. Other paths are 404, other methods 405, a request with a body 413, a
// header over 8 KiB 431. On a loopback address, a Host that is neither a number nor a name of this
// machine gets 403: it may be a web page's name that its owner pointed at this machine (DNS
// rebinding). Owns its listening socket, its connections and one thread ("admin").
class AdminServer {
 public:
  // `address` is "host:port" with a name or number; port 0 takes a free one. Returns once it
  // listens. Errors name the address.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                            AdminPages pages,
                                                            AdminServerLimits limits = {});

  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;
  // Closes every connection and joins the thread, within milliseconds.
  ~AdminServer();

  uint16_t port() const { return address_.port; }
  const Address& address() const { return address_; }  // the configured host, the bound port

 private:
  class Impl;
  AdminServer(Address address, std::unique_ptr<Impl> impl);

  const Address address_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
