#include "cli/serve/processes/screen.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cli {
namespace {

// Default port of `lockstep chat`, `lockstep top` and `lockstep generate`.
constexpr uint16_t kDefaultPort = 8000;

std::string UrlOption(const Served& served, const Address& client) {
  if (served.tls) return fmt::format(" --url https://{} --tls-ca FILE", FormatAddress(client));
  if (client.port == kDefaultPort && client.host == "127.0.0.1") return {};
  return " --url " + FormatAddress(client);
}

std::string CurlCommand(const Served& served, const std::string& base) {
  return fmt::format(
      "curl {}{}/v1/completions -H 'Content-Type: application/json' \\\n"
      "                 {}-d '{{\"prompt\": \"Once upon a time\", \"max_tokens\": 20}}'",
      served.tls ? "--cacert FILE " : "", base,
      served.keys ? "-H 'Authorization: Bearer KEY' " : "");
}

}  // namespace

Address ClientAddress(const Address& address) {
  if (address.host == "0.0.0.0") return {.host = "127.0.0.1", .port = address.port};
  if (address.host == "::") return {.host = "::1", .port = address.port};
  return address;
}

std::string StartScreen(const Served& served, const Paint& paint) {
  const Address client = ClientAddress(served.address);
  const std::string base =
      fmt::format("{}://{}", served.tls ? "https" : "http", FormatAddress(client));
  const std::string url = UrlOption(served, client);
  std::string out = fmt::format("\n{} {}\n\n", paint.Bold(served.model), served.where);
  const auto row = [&](std::string_view name, std::string_view value) {
    out += fmt::format("  {:<12} {}\n", name, value);
  };
  row("page", paint.Bold(base + "/"));
  row("OpenAI API", paint.Bold(base + "/v1"));
  row("gRPC", FormatAddress(client));
  // With keys, the API has no metrics. `lockstep top` knows neither TLS nor keys.
  const bool guarded = served.tls || served.keys;
  row("metrics",
      guarded ? fmt::format("http://{}/metrics", served.admin_address) : base + "/metrics");
  row("logs", served.log_folder);
  out += "\n";
  row("talk", "lockstep chat" + url + (served.keys ? " --api-key @FILE" : ""));
  row("watch", "lockstep top" + (guarded ? " --url " + served.admin_address : url));
  row("curl", CurlCommand(served, base));
  out += "\n" + paint.Dim("Ctrl-C stops") + "\n";
  return out;
}

std::string ProgressText(const std::vector<std::optional<LoadingProgress>>& workers) {
  const LoadingProgress* least = nullptr;
  for (const std::optional<LoadingProgress>& progress : workers) {
    if (!progress) return "starting";
    if (least == nullptr || progress->percent < least->percent) least = &*progress;
  }
  if (least == nullptr) return "starting";
  return fmt::format("loading {}: {} %", least->stage, least->percent);
}

std::string PortTakenText(const std::string& model, uint16_t port, uint16_t free_port) {
  if (free_port == 0) {
    return fmt::format(
        "port {} is taken, and so are the next hundred; name another one with --port", port);
  }
  return fmt::format("port {} is taken; {} is free: lockstep serve {} --port {}", port, free_port,
                     ShellQuoted(model), free_port);
}

std::string ShellQuoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("-_./:=@%+,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace lockstep::cli
