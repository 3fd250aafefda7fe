#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/net/unix_socket.h"

namespace lockstep::cli {

// The answer of the control socket: every line is one of these words, a space and a text. A line
// with kDone or kFailed is the last one.
inline constexpr std::string_view kProgress = "progress";
inline constexpr std::string_view kDone = "done";
inline constexpr std::string_view kFailed = "failed";

// Where `lockstep upgrade` of this user reaches a running `lockstep serve`: a unix socket, and a
// symbolic link that leads to it. A connection asks for an upgrade; nothing is read from it. Has
// one client at a time. Never waits for a client: a client that reads too little loses its
// connection. Not thread-safe.
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

  // Readable when a client waits.
  int descriptor() const { return listener_->descriptor(); }
  // True if the last Accept found no free file descriptor. Until one is free, the socket stays
  // readable.
  bool exhausted() const { return exhausted_; }
  // True when a client asks for an upgrade. `refusal`: the answer to all clients; empty: one may
  // ask.
  bool Accept(std::string_view refusal);

  // To the client, if it is still there.
  void Say(std::string_view text) { Send(kProgress, text); }
  // Sends the last line, then closes the connection.
  void End(std::string_view word, std::string_view text);

 private:
  ControlSocket(std::string path, std::unique_ptr<UnixListener> listener)
      : path_(std::move(path)), listener_(std::move(listener)) {}
  void Send(std::string_view word, std::string_view text);
  void CloseClient();

  const std::string path_;
  const std::unique_ptr<UnixListener> listener_;
  std::string link_path_;  // empty: there is none
  int client_ = -1;        // its connection; -1: there is no client
  bool exhausted_ = false;
};

// A connection to the control socket of this user at the end of a link. NOT_FOUND if there is no
// such link, PERMISSION_DENIED if the socket is another user's, UNAVAILABLE if no program listens.
absl::StatusOr<int> ConnectToControl(const std::string& link_path);

}  // namespace lockstep::cli
