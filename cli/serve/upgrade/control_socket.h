#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// The words of the control socket. A client sends the line kUpgradeCommand. Every line of the
// answer is one of these words, a space and a text. A line with kDone or kFailed is the last one.
inline constexpr std::string_view kUpgradeCommand = "upgrade";
inline constexpr std::string_view kProgress = "progress";
inline constexpr std::string_view kDone = "done";
inline constexpr std::string_view kFailed = "failed";

// Where other commands of this user reach a running `lockstep serve`: a unix socket, and a file of
// mode 0600 that has its path. Takes connections of this user only. Never waits for a client: a
// client that reads too little, or sends more than its command, loses its connection. Not
// thread-safe.
class ControlSocket {
 public:
  // Replaces `file_path`. The destructor removes both. UNAVAILABLE naming the path.
  static absl::StatusOr<ControlSocket> Listen(const std::string& socket_path,
                                              const std::string& file_path);
  ControlSocket(ControlSocket&& other) noexcept;
  ControlSocket& operator=(ControlSocket&&) = delete;
  ~ControlSocket();

  void AddTo(std::vector<pollfd>& waiting) const;
  // Takes connections and reads what has come. Returns the clients that have asked for an upgrade
  // since the last call.
  std::vector<uint64_t> Work();

  // Both ignore a client that is gone.
  void Say(uint64_t client, std::string_view text);
  // Sends the last line, then closes the connection.
  void End(uint64_t client, std::string_view word, std::string_view text);

 private:
  struct Client {
    uint64_t number = 0;
    int socket = -1;  // -1: closed
    std::string input;
    bool asked = false;
  };

  explicit ControlSocket(int listener) : listener_(listener) {}
  void Accept();
  // True when its command has come.
  bool Receive(Client& client);
  void Send(uint64_t number, std::string_view word, std::string_view text);

  int listener_;             // -1: moved away
  std::string socket_path_;  // empty: there is none to remove
  std::string file_path_;    // likewise
  std::list<Client> clients_;
  uint64_t next_number_ = 0;
};

// The socket that the file names. NOT_FOUND if there is no such file. FAILED_PRECONDITION if the
// file is not of the user `owner` (geteuid()), or not private.
absl::StatusOr<std::string> ReadControlFile(const std::string& file_path, uid_t owner);

// A connection to a control socket of this user. UNAVAILABLE if no program listens there.
absl::StatusOr<int> ConnectToControl(const std::string& socket_path);

}  // namespace lockstep::cli
