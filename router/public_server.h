#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/address.h"
#include "common/net/tls/tls_files.h"
#include "common/strands/stall_watch.h"
#include "router/grpc/grpc_services.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

struct PublicServerConfig {
  std::string listen;       // empty: none
  std::string main_listen;  // a second listener for the same services; empty: none
  TlsFiles tls;             // none: plaintext
  // For all listeners together. Further connections are closed at once.
  uint32_t max_connections = 4096;
  // The same for one address. 0: no limit. Not set: a quarter of max_connections.
  std::optional<uint32_t> max_connections_per_address;
  std::vector<std::string> cors_origins;       // pages of these origins may read answers
                                               // (browser_policy.h)
  uint32_t max_concurrent_streams = 1024;      // for each HTTP/2 connection
  uint32_t num_threads = 2;                    // read requests and write answers
  uint32_t max_body_memory_mib = 1024;         // for bodies and whole answers of all connections
  uint64_t max_whole_answer_bytes = 64 << 20;  // of an answer that is not streamed
  // From a request's first byte. A TLS handshake gets the same time.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Minutes(1);
  absl::Duration idle_timeout = absl::Seconds(75);  // between two requests
  // An HTTP/2 connection is pinged after keepalive_time without bytes from the client. It is closed
  // if no answer comes within keepalive_timeout. This finds clients that vanished.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);

  uint32_t MaxConnectionsPerAddress() const;
  absl::Status Validate() const;  // every violation at once
};

// The public front. Every listener speaks HTTP/1.1 and HTTP/2, with TLS if it is configured, and
// serves the OpenAI-compatible API and, if given, gRPC.
//
// HTTP/1.1: connections are kept alive, requests of a connection are served one after the other,
// streams are server-sent events. If a client closes its side, or sends more than a few KiB before
// its answer is finished, its connection and request end.
//
// Owns its listening sockets, connections and threads ("http-0", ...). A new connection goes to the
// thread with the fewest connections. It stays there, and so do the strands of its requests.
class PublicServer {
 public:
  // Returns once it listens. Errors name the address or the file. `context`, `registry` and
  // everything that `grpc` refers to must outlive the object. `grpc` null: no gRPC.
  static absl::StatusOr<std::unique_ptr<PublicServer>> Start(
      const PublicServerConfig& config, ApiContext& context, prometheus::Registry& registry,
      std::unique_ptr<GrpcServices> grpc = nullptr);
  PublicServer(const PublicServer&) = delete;
  PublicServer& operator=(const PublicServer&) = delete;
  // Closes every connection and joins the threads. Running requests are cancelled.
  ~PublicServer();

  // The configured host and the bound port.
  const Address& address() const { return address_; }
  const Address& main_address() const { return main_address_; }

  // Adds "http-0", ...
  void WatchThreads(StallWatch& watch) const;

  // Counted bytes in transit now, over all connections.
  size_t held_bytes() const;

  // Asks HTTP/2 clients to make their next requests on another connection (GOAWAY).
  void AnnounceEnd();
  // Lets connections finish their current answers, for at most `grace`.
  void Finish(absl::Duration grace);

 private:
  class Impl;
  PublicServer(Address address, Address main_address, std::unique_ptr<Impl> impl);

  const Address address_;
  const Address main_address_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
