#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "router/front/connection/exchange.h"

namespace lockstep::router {

struct Framing {
  bool keep_alive = false;
  bool chunked = false;
  std::optional<size_t> content_length;
};

// The status line and the header of an HTTP/1.1 response, up to and with the empty line.
void AppendResponseHead(const HttpHead& head, const Framing& framing, std::string& out);

// Makes a chunk of what is to be written: the size at the end of `head`, the rest around `body`;
// the last one is followed by the end of all chunks.
void AppendChunkFrame(bool last, std::string& head, std::string& body);

}  // namespace lockstep::router
