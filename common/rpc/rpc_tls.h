#pragma once

#include <absl/status/statusor.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "common/net/tls/reloaded_tls.h"
#include "common/net/tls/tls_files.h"

namespace lockstep {

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;
using SslContextPtr = std::shared_ptr<SSL_CTX>;

// The TLS of one client connection, from the current files: TLS 1.2 or later, HTTP/2 by ALPN. The
// server's certificate must have the name in `files`, or else `host`. Errors name the file.
absl::StatusOr<SslPtr> MakeClientTls(const TlsClientFiles& files, const std::string& host);

// The TLS of a server's connections. Replaced files are read again. If they cannot be used, the
// previous ones stay in use. Used from any thread.
class RpcServerTls {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServerTls>> Load(TlsFiles files);
  // For a new connection. Null if there is no memory.
  SslPtr Make();

 private:
  explicit RpcServerTls(TlsFiles files);

  ReloadedTls<SSL_CTX> context_;
};

// Why OpenSSL's latest call on this thread failed. Clears the error.
std::string TakeSslError();

}  // namespace lockstep
