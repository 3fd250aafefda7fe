#pragma once

#include <absl/status/statusor.h>
#include <sys/stat.h>

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "common/net/tls_files.h"
#include "common/runtime/mutex.h"

namespace lockstep::router {

// What new connections shake hands with: TLS 1.2 or later, made of files that may be replaced while
// the process runs. Any thread.
class ServerTls {
 public:
  // Errors name the file.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Load(TlsFiles files);

  // Of the files as they are now; as they were when what they hold now cannot be used, which is
  // logged once. A few system calls unless something changed.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  // What tells a replaced file from the one before.
  struct FileStamp {
    ino_t inode = 0;
    off_t num_bytes = 0;
    int64_t modified_unix_ns = 0;
    bool operator==(const FileStamp&) const = default;
  };
  using Stamps = std::array<FileStamp, 3>;

  explicit ServerTls(TlsFiles files) : files_(std::move(files)) {}
  Stamps Look() const;

  const TlsFiles files_;
  Mutex mutex_;
  Stamps seen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
