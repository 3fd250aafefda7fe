#include "common/net/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

constexpr std::string_view kScheme = "unix:";
constexpr mode_t kAllButTheOwner = 0177;

absl::Status SystemError(std::string_view what, std::string_view path) {
  return Unavailable("cannot {} {}: {}", what, path, std::strerror(errno));
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

int OpenSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// True if a process accepts connections at the path, or has too many waiting ones.
bool IsLive(const std::string& path) {
  const int probe = OpenSocket();
  if (probe < 0) return true;
  const sockaddr_un address = AddressOf(path);
  const int result = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool live = result == 0 || errno == EAGAIN || errno == EINPROGRESS;
  close(probe);
  return live;
}

}  // namespace

bool IsUnixAddress(std::string_view text) { return text.starts_with(kScheme); }

absl::StatusOr<std::string> ParseUnixAddress(std::string_view text) {
  const std::string_view path = IsUnixAddress(text) ? text.substr(kScheme.size()) : "";
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path) ||
      path.find('\0') != std::string_view::npos) {
    return InvalidArgument("expected unix:PATH with 1 to {} bytes of path, got {} bytes",
                           sizeof(sockaddr_un::sun_path) - 1, path.size());
  }
  return std::string(path);
}

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Listen(const std::string& path) {
  const std::string lock_path = path + ".lock";
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return SystemError("open", lock_path);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return Unavailable("another process listens at {}: it holds the lock on {}", path, lock_path);
  }
  std::unique_ptr<UnixListener> listener(new UnixListener(path, lock));
  LOCKSTEP_RETURN_IF_ERROR(listener->RemoveDeadSocket());
  LOCKSTEP_RETURN_IF_ERROR(listener->Bind());
  return listener;
}

absl::Status UnixListener::RemoveDeadSocket() const {
  struct stat found = {};
  if (lstat(path_.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError("look at", path_);
  }
  if (!S_ISSOCK(found.st_mode)) return Unavailable("{} is there and is no socket", path_);
  if (IsLive(path_)) return Unavailable("another process listens at {}", path_);
  if (unlink(path_.c_str()) != 0) return SystemError("remove the dead socket", path_);
  return absl::OkStatus();
}

absl::Status UnixListener::Bind() {
  const int opened = OpenSocket();
  if (opened < 0) return SystemError("open a socket for", path_);
  const sockaddr_un address = AddressOf(path_);
  // Set before bind, so that no other user can connect, not even for a moment.
  const mode_t before = umask(kAllButTheOwner);
  const bool bound =
      bind(opened, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  umask(before);
  if (!bound || listen(opened, SOMAXCONN) != 0) {
    const absl::Status status = SystemError("listen at", path_);
    if (bound) unlink(path_.c_str());
    close(opened);
    return status;
  }
  socket_ = opened;
  return absl::OkStatus();
}

UnixListener::~UnixListener() {
  if (socket_ >= 0) {
    unlink(path_.c_str());
    close(socket_);
  }
  close(lock_);
}

}  // namespace lockstep
