#include "cli/serve/upgrade/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxClients = 8;
constexpr size_t kMaxCommandBytes = 64;

absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Unavailable("{}: too long a path", path);
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

// Other users get no further than this, even if they pass the folder's mode.
bool IsOwnUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// In place of whatever is there, without following a link.
absl::Status WriteControlFile(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = file >= 0 && write(file, text.data(), text.size()) == std::ssize(text);
  if (file >= 0) close(file);
  written = written && rename(fresh.c_str(), path.c_str()) == 0;
  return written ? absl::OkStatus() : Unavailable("{}: {}", path, std::strerror(errno));
}

void CloseSocket(int& socket) {
  if (socket >= 0) close(socket);
  socket = -1;
}

}  // namespace

absl::StatusOr<ControlSocket> ControlSocket::Listen(const std::string& socket_path,
                                                    const std::string& file_path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(socket_path));
  ControlSocket control(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (control.listener_ < 0 ||
      bind(control.listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(control.listener_, kMaxClients) != 0) {
    return Unavailable("{}: {}", socket_path, std::strerror(errno));
  }
  control.socket_path_ = socket_path;
  LOCKSTEP_RETURN_IF_ERROR(WriteControlFile(file_path, socket_path + "\n"));
  control.file_path_ = file_path;
  return control;
}

ControlSocket::ControlSocket(ControlSocket&& other) noexcept
    : listener_(std::exchange(other.listener_, -1)),
      socket_path_(std::exchange(other.socket_path_, {})),
      file_path_(std::exchange(other.file_path_, {})),
      clients_(std::exchange(other.clients_, {})),
      next_number_(other.next_number_) {}

ControlSocket::~ControlSocket() {
  for (Client& client : clients_) CloseSocket(client.socket);
  CloseSocket(listener_);
  for (const std::string& path : {socket_path_, file_path_}) {
    if (!path.empty()) unlink(path.c_str());
  }
}

void ControlSocket::AddTo(std::vector<pollfd>& waiting) const {
  waiting.push_back({listener_, POLLIN, 0});
  for (const Client& client : clients_) waiting.push_back({client.socket, POLLIN, 0});
}

std::vector<uint64_t> ControlSocket::Work() {
  Accept();
  std::vector<uint64_t> asking;
  for (Client& client : clients_) {
    if (Receive(client)) asking.push_back(client.number);
  }
  clients_.remove_if([](const Client& client) { return client.socket < 0; });
  return asking;
}

void ControlSocket::Accept() {
  for (;;) {
    int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    if (!IsOwnUser(socket)) {
      CloseSocket(socket);
      continue;
    }
    // A new client takes the place of the oldest one that has not asked for anything.
    if (clients_.size() >= kMaxClients) {
      const auto silent = std::find_if(clients_.begin(), clients_.end(),
                                       [](const Client& client) { return !client.asked; });
      CloseSocket(silent == clients_.end() ? clients_.front().socket : silent->socket);
      clients_.remove_if([](const Client& client) { return client.socket < 0; });
    }
    clients_.push_back({.number = next_number_++, .socket = socket, .input = {}});
  }
}

bool ControlSocket::Receive(Client& client) {
  char buffer[kMaxCommandBytes];
  const ssize_t count = recv(client.socket, buffer, sizeof(buffer), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // It is gone, or sends more than its command.
  if (count <= 0 || client.asked) {
    CloseSocket(client.socket);
    return false;
  }
  client.input.append(buffer, static_cast<size_t>(count));
  const size_t end = client.input.find('\n');
  if (end == std::string::npos && client.input.size() < kMaxCommandBytes) return false;
  client.asked = client.input == std::string(kUpgradeCommand) + "\n";
  if (!client.asked) End(client.number, kFailed, "there is no such command");
  return client.asked;
}

void ControlSocket::Say(uint64_t client, std::string_view text) { Send(client, kProgress, text); }

void ControlSocket::End(uint64_t client, std::string_view word, std::string_view text) {
  Send(client, word, text);
  for (Client& one : clients_) {
    if (one.number == client) CloseSocket(one.socket);
  }
}

void ControlSocket::Send(uint64_t number, std::string_view word, std::string_view text) {
  const std::string line = fmt::format("{} {}\n", word, text);
  for (Client& client : clients_) {
    if (client.number != number || client.socket < 0) continue;
    const ssize_t sent = send(client.socket, line.data(), line.size(), MSG_NOSIGNAL);
    if (sent != std::ssize(line)) CloseSocket(client.socket);
  }
}

absl::StatusOr<std::string> ReadControlFile(const std::string& file_path, uid_t owner) {
  const int file = open(file_path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return NotFound("{}: no such file", file_path);
  if (file < 0) return FailedPrecondition("{}: {}", file_path, std::strerror(errno));
  struct stat status = {};
  char buffer[sizeof(sockaddr_un::sun_path) + 1];
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const ssize_t count = is_file ? read(file, buffer, sizeof(buffer)) : 0;
  close(file);
  if (status.st_uid != owner) return FailedPrecondition("{} is another user's", file_path);
  if (!is_file || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return FailedPrecondition("{}: expected a file of mode 0600", file_path);
  }
  const std::string text(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (text.find('\n') == std::string::npos) {
    return FailedPrecondition("{}: expected a line with the path of a socket", file_path);
  }
  return text.substr(0, text.find('\n'));
}

absl::StatusOr<int> ConnectToControl(const std::string& socket_path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(socket_path));
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection >= 0 &&
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    if (IsOwnUser(connection)) return connection;
    errno = EACCES;
  }
  const int error = errno;
  CloseSocket(connection);
  return Unavailable("{}: {}", socket_path, std::strerror(error));
}

}  // namespace lockstep::cli
