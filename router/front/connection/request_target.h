#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/front/connection/header_list.h"

namespace lockstep::router {

// What a request asks for, and of whom.
struct RequestTarget {
  std::string path = {};  // without the query; "*" for OPTIONS of the server as a whole
  std::string host = {};  // the router, as the client calls it; empty: the client does not say
};

// In either place `refusal` is null, or says for a 400 why there is no such target.
struct TargetReading {
  RequestTarget target = {};
  const char* refusal = nullptr;
};

// Of HTTP/1 (RFC 9112, 3.2 and 3.3): "/path?query", "http://host/path?query", "*" of OPTIONS.
// `host` is the field Host. None: the request has no such field, which only HTTP/1.0 allows. The
// host in a target counts, and not that of the field beside it.
TargetReading ReadTarget(std::string_view method, std::string_view target,
                         std::optional<std::string_view> host, bool http_1_0);

// Of HTTP/2 (RFC 9113, 8.3.1), whose library has looked at the pseudo-header fields already.
TargetReading ReadTarget(const HeaderList& fields);

// Whether HTTP/2's ":authority" and "host" name different servers, as of a request that a proxy
// might send elsewhere.
bool NamesTwoHosts(const HeaderList& fields);

}  // namespace lockstep::router
