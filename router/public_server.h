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
#include "router/grpc/grpc_services.h"
#include "router/serving/calls/api_context.h"
#include "router/strands/stall_watch.h"

namespace lockstep::router {

struct PublicServerConfig {
  std::vector<std::string> listeners = {"127.0.0.1:50051"};  // host:port of each; port 0: any
  TlsFiles tls;                                              // none: plaintext
  // Open connections of all listeners together. One more is closed at once.
  uint32_t max_connections = 4096;
  // The same for one client address. 0: no bound. Not set: a quarter of max_connections.
  std::optional<uint32_t> max_connections_per_address;
  std::vector<std::string> cors_origins;   // pages from here may read answers (browser_policy.h)
  uint32_t max_concurrent_streams = 1024;  // of one HTTP/2 connection
  uint32_t num_threads = 2;                // that read requests and write answers
  // Held for all connections together: requests as they arrive, and answers until they are sent.
  uint32_t max_connection_memory_mib = 1024;
  uint64_t max_whole_answer_bytes = 64 << 20;  // of an answer that is not streamed
  // From a request's first byte. A TLS handshake may take as long.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Minutes(1);
  absl::Duration idle_timeout = absl::Seconds(75);  // between two requests
  // An HTTP/2 connection gets a ping after this time without input. It is closed if no answer comes
  // within keepalive_timeout, because its client has vanished.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);

  uint32_t MaxConnectionsPerAddress() const;
  absl::Status Validate() const;  // every violation at once
};

// Serves the OpenAI-compatible API and, if it is given, gRPC. Every listener speaks HTTP/1.1 and
// HTTP/2, in TLS if there are files for it. Over HTTP/1.1 a connection is kept alive, answers one
// request after the other, and streams server-sent events. A client that closes its side, or sends
// more than a few KiB ahead of its answer, loses the connection and the request on it.
//
// Owns its listening sockets, its connections and its threads ("http-0", ...). A new connection
// goes to the thread with the fewest connections. It stays there, and so do the strands of its
// requests.
class PublicServer {
 public:
  // Returns once it listens. Errors name the address or the file. The context, the registry and
  // what `grpc` refers to must outlive the object. `grpc` null: no gRPC.
  static absl::StatusOr<std::unique_ptr<PublicServer>> Start(
      const PublicServerConfig& config, ApiContext& context, prometheus::Registry& registry,
      std::unique_ptr<GrpcServices> grpc = nullptr);
  PublicServer(const PublicServer&) = delete;
  PublicServer& operator=(const PublicServer&) = delete;
  // Closes every connection, cancels the requests that still run, and joins the threads.
  ~PublicServer();

  // One for each listener: the host as configured, the port as bound.
  const std::vector<Address>& addresses() const { return addresses_; }

  // Adds "http-0", ...
  void WatchThreads(StallWatch& watch) const;

  // Bytes that all connections together hold now.
  size_t held_bytes() const;

  // Asks HTTP/2 clients to make their next requests on another connection (GOAWAY).
  void AnnounceEnd();
  // Waits for at most `grace` until connections have sent their answers.
  void Finish(absl::Duration grace);

 private:
  class Impl;
  PublicServer(std::vector<Address> addresses, std::unique_ptr<Impl> impl);

  const std::vector<Address> addresses_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
