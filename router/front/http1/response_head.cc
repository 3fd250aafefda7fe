#include "router/front/http1/response_head.h"

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

}  // namespace

void AppendResponseHead(const HttpHead& head, const Framing& framing, std::string& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\nServer: lockstep\r\nDate: {}\r\nContent-Type: {}\r\n",
                 head.status, ReasonPhrase(head.status), HttpDate(), head.content_type);
  for (const auto& [name, value] : head.headers) fmt::format_to(to, "{}: {}\r\n", name, value);
  if (framing.content_length.has_value()) {
    fmt::format_to(to, "Content-Length: {}\r\n", *framing.content_length);
  } else if (framing.chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  fmt::format_to(to, "Connection: {}\r\n\r\n", framing.keep_alive ? "keep-alive" : "close");
}

void AppendChunkFrame(bool last, std::string& head, std::string& body) {
  if (!body.empty()) {
    fmt::format_to(std::back_inserter(head), "{:x}\r\n", body.size());
    body += "\r\n";
  }
  if (last) body += "0\r\n\r\n";
}

}  // namespace lockstep::router
