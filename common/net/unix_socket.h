#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

// Unix sockets, which flags spell unix:PATH. Only processes of the user who listens may connect.
namespace lockstep {

bool IsUnixAddress(std::string_view text);
// The path. INVALID_ARGUMENT if it is empty, too long for a socket, or has a zero byte.
absl::StatusOr<std::string> ParseUnixAddress(std::string_view text);

// A socket that listens at a path, with mode 0600 from the beginning. While the object lives, it
// owns the path: it holds a lock on PATH.lock. It removes the socket at the end.
class UnixListener {
 public:
  // UNAVAILABLE if another process listens there already, or if the path is no socket. A socket at
  // which no process listens is replaced.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Listen(const std::string& path);
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;
  ~UnixListener();

  int descriptor() const { return socket_; }  // non-blocking

 private:
  UnixListener(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  absl::Status RemoveDeadSocket() const;
  absl::Status Bind();

  const std::string path_;
  const int lock_;
  int socket_ = -1;
};

}  // namespace lockstep
