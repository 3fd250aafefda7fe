#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/unix_socket.h"

namespace lockstep::cli {

// The words of the control socket. A client sends the line kUpgradeCommand. Every line of the
// answer is one of these words, a space and a text. A line with kDone or kFailed is the last one.
inline constexpr std::string_view kUpgradeCommand = "upgrade";
inline constexpr std::string_view kProgress = "progress";
inline constexpr std::string_view kDone = "done";
inline constexpr std::string_view kFailed = "failed";

// Where other commands of this user reach a running `lockstep serve`: a unix socket, and a symbolic
// link that leads to it. Has one client at a time, of this user. Never waits for a client: a client
// that reads too little, or sends more than its command, loses its connection. Not thread-safe.
class ControlSocket {
 public:
  // UNAVAILABLE naming the path.
  static absl::StatusOr<std::unique_ptr<ControlSocket>> Listen(const std::string& socket_path);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  // Removes the socket, and the link if it still leads there.
  ~ControlSocket();

  // Makes the link, in place of a file or a link of this name. UNAVAILABLE naming `link_path`.
  absl::Status Link(const std::string& link_path);

  void AddTo(std::vector<pollfd>& waiting) const;
  // True if the last Work found no free file descriptor. AddTo then leaves new clients out.
  bool exhausted() const { return exhausted_; }
  // Takes connections and reads what has come. True when the client has asked for an upgrade.
  // `refusal`: why none may ask now; empty: one may. A new client takes the place of a client that
  // has not asked for anything.
  bool Work(std::string_view refusal);

  // To the client, if it is still there.
  void Say(std::string_view text) { Send(kProgress, text); }
  // Sends the last line, then closes the connection.
  void End(std::string_view word, std::string_view text);

 private:
  ControlSocket(std::string path, std::unique_ptr<UnixListener> listener)
      : path_(std::move(path)), listener_(std::move(listener)) {}
  // True when the client's command has come.
  bool Receive(std::string_view refusal);
  void Send(std::string_view word, std::string_view text);
  void CloseClient();

  const std::string path_;
  const std::unique_ptr<UnixListener> listener_;
  std::string link_path_;  // empty: there is none
  int client_ = -1;        // its connection; -1: there is no client
  std::string input_;      // of the client
  bool asked_ = false;     // the client
  bool exhausted_ = false;
};

// A connection to the control socket of this user at the end of a link. NOT_FOUND if there is no
// such link, PERMISSION_DENIED if the socket is another user's, UNAVAILABLE if no program listens.
absl::StatusOr<int> ConnectToControl(const std::string& link_path);

}  // namespace lockstep::cli
