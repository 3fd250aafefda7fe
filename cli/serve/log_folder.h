#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::cli {

// The folder where `lockstep serve` keeps logs and the file of its control socket: `log_dir` if it
// is given, else one below the user's cache that is named after host and port.
std::string LogFolder(const std::string& host, uint16_t port,
                      const std::optional<std::string>& log_dir);

// The file in that folder which has the path of the control socket.
inline constexpr char kControlFile[] = "serve.control";

}  // namespace lockstep::cli
