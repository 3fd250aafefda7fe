#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/front/connection/header_list.h"

namespace lockstep::router {

// The path of a request and the host it names.
struct RequestTarget {
  std::string path = {};  // without the query; "*" for OPTIONS of the whole server
  std::string host = {};  // the router's name in the request; empty: not given
};

// `refusal` is null, or the message of a 400.
struct TargetReading {
  RequestTarget target = {};
  const char* refusal = nullptr;
};

// Reads an HTTP/1 target (RFC 9112, 3.2 and 3.3): "/path?query", "http://host/path?query", or "*"
// for OPTIONS. `host` is the field Host; none: the field is missing, which only HTTP/1.0 allows. A
// host in the target takes precedence over the field.
TargetReading ReadTarget(std::string_view method, std::string_view target,
                         std::optional<std::string_view> host, bool http_1_0);

// Reads an HTTP/2 target (RFC 9113, 8.3.1). nghttp2 has already checked the pseudo-header fields.
TargetReading ReadTarget(const HeaderList& fields);

// True if HTTP/2's ":authority" and "host" name different servers. A proxy might then have routed
// the request by the other name.
bool NamesTwoHosts(const HeaderList& fields);

// True if `asked` is `path`, or is below it where `covers_subpaths`.
bool IsAtPath(std::string_view asked, std::string_view path, bool covers_subpaths);

}  // namespace lockstep::router
