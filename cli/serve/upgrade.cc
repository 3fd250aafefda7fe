#include "cli/serve/upgrade.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "cli/common/errors.h"
#include "cli/common/options.h"
#include "cli/serve/runtime_folder.h"
#include "cli/serve/upgrade/control_socket.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxAnswerBytes = 64 << 10;

struct UpgradeOptions {
  std::optional<uint64_t> port = 8000;
  std::string host = "127.0.0.1";
  std::optional<std::string> log_folder;
};

absl::StatusOr<UpgradeOptions> ParseUpgradeOptions(const Verb& verb,
                                                   std::span<const std::string> words) {
  Arguments arguments = Arguments::Parse(verb.options, words);
  arguments.ExpectPositionals({});
  arguments.ExpectNoRest();
  UpgradeOptions options;
  arguments.ReadInteger("port", 1, 65535, options.port);
  arguments.Read("host", options.host);
  arguments.Read("log-dir", options.log_folder);
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return options;
}

// A connection to the server. If there is none, says where one was looked for.
absl::StatusOr<int> Connect(const UpgradeOptions& options) {
  const auto port = static_cast<uint16_t>(*options.port);
  absl::StatusOr<int> connection =
      ConnectToControl(LogFolder(options.host, port, options.log_folder) + "/" +
                       ControlLinkName(options.host, port));
  if (connection.ok()) return connection;
  return Unavailable(
      "no `lockstep serve` of this user runs at port {} ({}). Give the same --port, --host and "
      "--log-dir as to `lockstep serve`. A server that is older than this command must be "
      "restarted instead",
      port, Message(connection.status()));
}

// Reads a line without its end. None at the end of the connection, or if the line is too long.
std::optional<std::string> ReadLine(int connection, std::string& input) {
  for (;;) {
    const size_t end = input.find('\n');
    if (end != std::string::npos) {
      std::string line = input.substr(0, end);
      input.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || input.size() > kMaxAnswerBytes) return std::nullopt;
    input.append(buffer, static_cast<size_t>(count));
  }
}

// Sends the command and prints the answers, up to the last one.
absl::Status Upgrade(int connection) {
  const std::string command = std::string(kUpgradeCommand) + "\n";
  send(connection, command.data(), command.size(), MSG_NOSIGNAL);
  std::string input;
  while (const std::optional<std::string> line = ReadLine(connection, input)) {
    const size_t space = line->find(' ');
    const std::string word = line->substr(0, space);
    const std::string text =
        space == std::string::npos ? "" : WithoutControls(line->substr(space + 1));
    if (word == kFailed) return Unavailable("{}", text);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    if (word == kDone) return absl::OkStatus();
  }
  return Unavailable("`lockstep serve` closed the connection; its screen says what it does");
}

}  // namespace

int RunUpgrade(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<UpgradeOptions> options = ParseUpgradeOptions(verb, words);
  if (!options.ok()) return PrintUsageError(verb.name, options.status());
  const absl::StatusOr<int> connection = Connect(*options);
  if (!connection.ok()) return PrintFailure(verb.name, connection.status());
  const absl::Status status = Upgrade(*connection);
  close(*connection);
  return status.ok() ? 0 : PrintFailure(verb.name, status);
}

}  // namespace lockstep::cli
