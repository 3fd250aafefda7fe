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
  std::string main_listen;  // another listener, which serves the same; empty: none
  TlsFiles tls;             // none: plaintext
  // Of all listeners together; one above it is closed at once.
  uint32_t max_connections = 4096;
  // Likewise, of one address; 0: no bound of its own. Not set: a quarter of all.
  std::optional<uint32_t> max_connections_per_address;
  std::vector<std::string> cors_origins;   // whose pages may read answers (browser_policy.h)
  uint32_t max_concurrent_streams = 1024;  // of one HTTP/2 connection
  uint32_t num_threads = 2;                // that read requests and write answers
  uint32_t max_body_memory_mib = 1024;     // bodies and whole answers of all connections together
  uint64_t max_whole_answer_bytes = 64 << 20;  // of one that is not streamed
  // From a request's first byte; for a TLS handshake, as much again.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Minutes(1);
  absl::Duration idle_timeout = absl::Seconds(75);  // between two requests
  // HTTP/2 connections are pinged when nothing came in for so long, and closed when the ping goes
  // unanswered: clients that vanished are noticed.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);

  uint32_t MaxConnectionsPerAddress() const;
  absl::Status Validate() const;  // every violation at once
};

// The public front: every listener speaks HTTP/1.1 and HTTP/2, in TLS where there are files for it,
// and serves the OpenAI-compatible API and, if it is given, gRPC. HTTP/1.1: keep-alive, one request
// of a connection after the other, streams as server-sent events; a client that closes its side, or
// sends more than a few KiB ahead of its answer, ends its connection and the request on it. Owns
// its listening sockets, its connections and threads ("http-0", ...). A connection stays on one
// thread, that of the fewest connections when it came, and so do the strands of its requests.
class PublicServer {
 public:
  // Returns once it listens; errors name the address or the file. Context and registry outlive the
  // object, and so does what `grpc` refers to; null: no gRPC.
  static absl::StatusOr<std::unique_ptr<PublicServer>> Start(
      const PublicServerConfig& config, ApiContext& context, prometheus::Registry& registry,
      std::unique_ptr<GrpcServices> grpc = nullptr);
  PublicServer(const PublicServer&) = delete;
  PublicServer& operator=(const PublicServer&) = delete;
  // Closes every connection and joins the threads; requests that still run are cancelled.
  ~PublicServer();

  // Host as asked for, port as bound.
  const Address& address() const { return address_; }
  const Address& main_address() const { return main_address_; }

  // Adds "http-0", ...
  void WatchThreads(StallWatch& watch) const;

  // Bytes in transit that are counted now, of all connections together.
  size_t held_bytes() const;

  // Tells HTTP/2 clients to make their next requests on another connection (GOAWAY).
  void AnnounceEnd();
  // Lets connections end what they answer, for at most `grace`.
  void Finish(absl::Duration grace);

 private:
  class Impl;
  PublicServer(Address address, Address main_address, std::unique_ptr<Impl> impl);

  const Address address_;
  const Address main_address_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
