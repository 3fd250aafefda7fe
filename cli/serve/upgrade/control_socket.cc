#include "cli/serve/upgrade/control_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Other users get no further than this, even if they pass the folder's mode.
bool IsOwnUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// False if the line does not fit into the connection.
bool SendLine(int socket, std::string_view word, std::string_view text) {
  const std::string line = fmt::format("{} {}\n", word, text);
  return send(socket, line.data(), line.size(), MSG_NOSIGNAL) == std::ssize(line);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::Listen(
    const std::string& socket_path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<UnixListener> listener,
                            UnixListener::Listen(socket_path));
  return std::unique_ptr<ControlSocket>(new ControlSocket(socket_path, std::move(listener)));
}

ControlSocket::~ControlSocket() {
  CloseClient();
  // Another server may have taken the name since.
  std::error_code error;
  if (fs::read_symlink(link_path_, error) == path_) fs::remove(link_path_, error);
}

absl::Status ControlSocket::Link(const std::string& link_path) {
  const std::string fresh = link_path + ".new";
  std::error_code error;
  fs::remove(fresh, error);
  if (!error) fs::create_symlink(path_, fresh, error);
  if (!error) fs::rename(fresh, link_path, error);
  if (error) return Unavailable("{}: {}", link_path, error.message());
  link_path_ = link_path;
  return absl::OkStatus();
}

bool ControlSocket::Accept(std::string_view refusal) {
  for (;;) {
    const int socket =
        accept4(listener_->descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    exhausted_ = socket < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    if (socket < 0) return false;
    if (IsOwnUser(socket) && refusal.empty()) {
      CloseClient();
      client_ = socket;
      return true;
    }
    if (IsOwnUser(socket)) SendLine(socket, kFailed, refusal);
    close(socket);
  }
}

void ControlSocket::Send(std::string_view word, std::string_view text) {
  if (client_ >= 0 && !SendLine(client_, word, text)) CloseClient();
}

void ControlSocket::End(std::string_view word, std::string_view text) {
  Send(word, text);
  CloseClient();
}

void ControlSocket::CloseClient() {
  if (client_ >= 0) close(client_);
  client_ = -1;
}

absl::StatusOr<int> ConnectToControl(const std::string& link_path) {
  std::error_code error;
  const std::string path = fs::read_symlink(link_path, error);
  if (error) return NotFound("{}: {}", link_path, error.message());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Unavailable("{}: too long a path", path);
  path.copy(address.sun_path, path.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      connection >= 0 &&
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (connected && IsOwnUser(connection)) return connection;
  const int cause = errno;
  if (connection >= 0) close(connection);
  if (connected) return absl::PermissionDeniedError(path + " is another user's");
  return Unavailable("{}: {}", path, std::strerror(cause));
}

}  // namespace lockstep::cli
