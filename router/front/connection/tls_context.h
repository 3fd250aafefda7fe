#pragma once

#include <absl/status/statusor.h>

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "common/net/tls/reloaded_tls.h"
#include "common/net/tls/tls_files.h"

namespace lockstep::router {

// The TLS settings of new connections: TLS 1.2 or later. The certificate files may be replaced
// while the process runs. Used from any thread.
class ServerTls {
 public:
  // Errors name the file.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Load(TlsFiles files);

  std::shared_ptr<boost::asio::ssl::context> Current() { return context_.Current(); }

 private:
  explicit ServerTls(TlsFiles files);

  ReloadedTls<boost::asio::ssl::context> context_;
};

}  // namespace lockstep::router
