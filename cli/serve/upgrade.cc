#include "cli/serve/upgrade.h"

#include <absl/strings/ascii.h>
#include <unistd.h>

#include <algorithm>
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

constexpr size_t kMaxLineBytes = 4096;

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

// Prints the answers, up to the last one.
absl::Status Follow(FILE* connection) {
  char buffer[kMaxLineBytes];
  while (std::fgets(buffer, sizeof(buffer), connection) != nullptr) {
    const std::string line(absl::StripTrailingAsciiWhitespace(buffer));
    const std::string word = line.substr(0, line.find(' '));
    const std::string text = WithoutControls(line.substr(std::min(word.size() + 1, line.size())));
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
  FILE* const stream = fdopen(*connection, "r");
  const absl::Status status = Follow(stream);
  std::fclose(stream);
  return status.ok() ? 0 : PrintFailure(verb.name, status);
}

}  // namespace lockstep::cli
