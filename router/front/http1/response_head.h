#pragma once

#include <string>

#include "router/front/connection/header_list.h"

namespace lockstep::router {

struct Framing {
  bool keep_alive = false;
  bool chunked = false;
};

// Appends the status line and the header of an HTTP/1.1 response, with the empty line at the end.
void AppendResponseHead(const HeaderList& head, const Framing& framing, std::string& out);

// Frames an output as a chunk: appends the size to `head` and the line end to `body`. After the
// last output it also appends the final chunk.
void AppendChunkFrame(bool last, std::string& head, std::string& body);

}  // namespace lockstep::router
