#include "router/front/http1/response_head.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "common/net/http_date.h"

namespace lockstep::router {
namespace {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

// Spells a name as HTTP/1.1 servers usually do: "content-type" as "Content-Type".
void AppendName(std::string_view name, std::string& out) {
  if (name == "www-authenticate") {
    out += "WWW-Authenticate";
    return;
  }
  bool begins_word = true;
  for (const char c : name) {
    out += begins_word ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    begins_word = c == '-';
  }
}

void AppendField(std::string_view name, std::string_view value, std::string& out) {
  AppendName(name, out);
  out += ": ";
  out += value;
  out += "\r\n";
}

}  // namespace

void AppendResponseHead(const HeaderList& head, const Framing& framing, std::string& out) {
  const int status = StatusOf(head);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nServer: {}\r\nDate: {}\r\n", status,
                 ReasonPhrase(status), head.Find("server"), HttpDate());
  for (size_t i = 0; i < head.size(); ++i) {
    const auto [name, value] = head[i];
    if (!name.starts_with(':') && name != "server") AppendField(name, value, out);
  }
  if (framing.chunked) AppendField("transfer-encoding", "chunked", out);
  AppendField("connection", framing.keep_alive ? "keep-alive" : "close", out);
  out += "\r\n";
}

void AppendChunkFrame(bool last, std::string& head, std::string& body) {
  if (!body.empty()) {
    fmt::format_to(std::back_inserter(head), "{:x}\r\n", body.size());
    body += "\r\n";
  }
  if (last) body += "0\r\n\r\n";
}

}  // namespace lockstep::router
