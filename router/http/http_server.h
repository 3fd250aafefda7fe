#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/address.h"
#include "common/tls_files.h"
#include "router/api/api_context.h"

namespace lockstep::router {

struct HttpServerConfig {
  std::string listen;                   // empty: no HTTP
  TlsFiles tls;                         // none: plaintext
  uint32_t max_connections = 1024;      // one above it is closed at once
  uint32_t num_threads = 2;             // that read requests and write answers
  uint32_t max_body_memory_mib = 1024;  // bodies and whole answers of all connections together
  uint64_t max_whole_answer_bytes = 64 << 20;  // of one that is not streamed
  // From a request's first byte; for a TLS handshake, as much again.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Minutes(1);
  absl::Duration idle_timeout = absl::Seconds(75);  // between two requests

  absl::Status Validate() const;  // every violation at once
};

// The OpenAI-compatible API over HTTP/1.1, in TLS where there are files for it: keep-alive, one
// request of a connection after the other, streams as server-sent events. A client that closes its
// side, or sends more than a few KiB ahead of its answer, ends its connection and the request on
// it. Owns its listening socket, its connections and threads ("http-0", ...).
class HttpServer {
 public:
  // Returns once it listens; errors name the address or the file. Context and registry outlive the
  // object.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerConfig& config,
                                                           ApiContext& context,
                                                           prometheus::Registry& registry);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Closes every connection and joins the threads; requests that still run are cancelled.
  ~HttpServer();

  const Address& address() const { return address_; }  // host as asked for, port as bound

 private:
  class Impl;
  HttpServer(Address address, std::unique_ptr<Impl> impl);

  const Address address_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
