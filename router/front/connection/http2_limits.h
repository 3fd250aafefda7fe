#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::router {

// What one HTTP/2 connection may hold.
struct Http2Limits {
  uint32_t max_concurrent_streams = 1024;
  uint32_t stream_window_bytes = 64 << 10;       // of a request body that its handler has not taken
  uint32_t connection_window_bytes = 512 << 10;  // the same for all bodies of a connection
  size_t max_header_list_bytes = 16 << 10;       // decoded, plus 32 for each field
};

}  // namespace lockstep::router
