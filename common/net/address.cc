#include "common/net/address.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "common/status.h"

namespace lockstep {
namespace {

bool IsPlainHost(std::string_view host) {
  for (const char c : host) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '[' || c == ']' || c == '/') return false;
  }
  return !host.empty();
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  absl::Status error =
      InvalidArgument("address \"{}\", expected host:port or [v6]:port with port 0 to 65535", text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return error;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool has_colon = host.find(':') != std::string_view::npos;
  const std::optional<uint16_t> port = ParsePort(text.substr(colon + 1));
  if (bracketed != has_colon || !IsPlainHost(host) || !port) return error;
  return Address{std::string(host), *port};
}

std::string FormatAddress(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", address.host, address.port)
               : fmt::format("{}:{}", address.host, address.port);
}

std::optional<uint16_t> ParsePort(std::string_view digits) {
  uint16_t port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end) return std::nullopt;
  return port;
}

bool IsLoopback(const Address& address) {
  const std::string& host = address.host;
  if (host == "localhost" || host == "::1") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos &&
         std::count(host.begin(), host.end(), '.') == 3;
}

}  // namespace lockstep
