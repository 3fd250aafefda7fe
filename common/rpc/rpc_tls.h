#pragma once

#include <absl/status/statusor.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/net/tls_files.h"
#include "common/runtime/mutex.h"

namespace lockstep {

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;
using SslContextPtr = std::shared_ptr<SSL_CTX>;

// One connection of a client: TLS 1.2 or newer, HTTP/2 by ALPN, with the files as they are now. The
// server's certificate must have the name in `files`, or else `host`. Errors name the file.
absl::StatusOr<SslPtr> MakeClientTls(const TlsClientFiles& files, const std::string& host);

// The same for the connections of a server. Files that were replaced are read again. If they
// cannot be used, the ones before stay in use. Any thread.
class RpcServerTls {
 public:
  static absl::StatusOr<std::unique_ptr<RpcServerTls>> Load(TlsFiles files);
  // Null if there is no memory.
  SslPtr Make();

 private:
  // What tells a replaced file from the one before.
  struct FileStamp {
    ino_t inode = 0;
    off_t num_bytes = 0;
    int64_t modified_unix_ns = 0;
    bool operator==(const FileStamp&) const = default;
  };

  explicit RpcServerTls(TlsFiles files) : files_(std::move(files)) {}
  std::vector<FileStamp> Look() const;

  const TlsFiles files_;
  Mutex mutex_;
  std::vector<FileStamp> seen_ ABSL_GUARDED_BY(mutex_);
  SslContextPtr context_ ABSL_GUARDED_BY(mutex_);
};

// Why OpenSSL's latest call on this thread failed. Forgets it.
std::string TakeSslError();

}  // namespace lockstep
