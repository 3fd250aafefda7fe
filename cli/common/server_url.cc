#include "cli/common/server_url.h"

#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kDefaultPortSuffix = ":8000";

bool TakePrefix(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

absl::StatusOr<ServerUrl> ParseServerUrl(std::string_view text) {
  ServerUrl url;
  std::string_view host = text;
  if (!TakePrefix("http://", host)) url.tls = TakePrefix("https://", host);
  host = host.substr(0, host.find('/'));
  const bool has_port = host.starts_with('[') ? host.find("]:") != std::string_view::npos
                                              : host.find(':') != std::string_view::npos;
  const absl::StatusOr<Address> address =
      ParseAddress(has_port ? std::string(host) : std::string(host).append(kDefaultPortSuffix));
  if (!address.ok() || address->port == 0) {
    return InvalidArgument(
        "expected a server as 127.0.0.1:8000 or http://127.0.0.1:8000, got \"{}\"", text);
  }
  url.address = *address;
  return url;
}

}  // namespace lockstep::cli
