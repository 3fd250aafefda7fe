#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <memory>
#include <string>

#include "router/front/http2/http2_session.h"

// The parts of an Http2Session. For its own sources only.
namespace lockstep::router {

struct Http2Session::Stream {
  StreamId id = 0;
  std::shared_ptr<StreamHandler> handler;  // null until the header is complete
  HeaderList fields;                       // until the header is complete
  size_t num_header_bytes = 0;
  bool header_too_large = false;
  bool body_open = true;
  bool answered = false;        // the head was submitted
  bool output_untaken = false;  // part of `output` was not sent yet
  bool last = false;            // `output` is the last of the answer
  size_t num_held_back = 0;     // body bytes not yet added back to the window
  std::string output;           // taken from the handler
  size_t num_filled = 0;        // bytes of `output` that were put into frames
  HeaderList trailers;
  Time body_since;    // arrival of the header
  Time output_since;  // when output was taken or last put into a frame
};

// What nghttp2 calls when it has read, sent or closed something, and its options. Every session
// copies them.
const nghttp2_session_callbacks* Http2SessionCallbacks();
const nghttp2_option* Http2SessionOptions();
// With an Http2Session::Stream as its source: gives nghttp2 the body of the answer.
nghttp2_data_source_read_callback Http2BodyCallback();

}  // namespace lockstep::router
