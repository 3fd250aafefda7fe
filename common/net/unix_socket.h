#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

// Unix sockets, written unix:PATH in flags. Only processes of the same user may connect.
namespace lockstep {

bool IsUnixAddress(std::string_view text);
// The path. INVALID_ARGUMENT if it is empty, too long for a socket, or has a zero byte.
absl::StatusOr<std::string> ParseUnixAddress(std::string_view text);

// A listening socket at a path, with mode 0600 from the start. While the object lives, it owns the
// path by a lock on PATH.lock. The destructor removes the socket.
class UnixListener {
 public:
  // UNAVAILABLE if another process listens there, or if the path is no socket. A socket without a
  // listening process is replaced.
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
