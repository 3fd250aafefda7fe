#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/net/http2_frames.h"
#include "common/net/rate_limit.h"

namespace lockstep::router {

// Counts an HTTP/2 client's frames by their 9-byte headers, before anything is decoded. It limits
// what the parser can be made to hold and do: bytes and frames of a header block, and the rate of
// frames that cost work but carry nothing. Knows neither sockets nor requests.
class FrameGuard {
 public:
  using Time = RateLimit::Time;

  // Checks the next bytes of the connection, from its first byte on. Null: they may be parsed.
  // Otherwise: why the connection must end; no later bytes are checked.
  const char* Look(std::string_view bytes, Time now);

  // True if a header block has begun and is not complete.
  bool in_header_block() const {
    return block_.open() || (in_header_frame_ && frames_.inside_frame());
  }
  // Bytes of the open header block so far, as announced by its frames.
  size_t num_header_block_bytes() const { return block_.open() ? block_.num_bytes() : 0; }
  // Header blocks that have begun.
  uint64_t num_header_blocks() const { return num_header_blocks_; }
  // Call when a DATA frame was sent. Clients answer DATA with WINDOW_UPDATEs, and measure the round
  // trip with a PING: grpc-go, grpc-java and hyper send one when DATA arrives and no PING of theirs
  // is pending.
  void OnDataSent() {
    window_updates_.Give(kWindowUpdatesPerDataFrame);
    pings_.Give(kPingsPerFrameSent);
  }
  // Call when a HEADERS frame was sent. Go's HTTP/2 client sends one PING with a reset after each.
  void OnHeadersSent() { pings_.Give(kPingsPerFrameSent); }
  // Call when the client sent a frame that nghttp2 refuses. False: there were too many.
  bool OnInvalidFrame(Time now) { return invalid_.Take(now); }

 private:
  // Two for the stream and two for the connection. grpc-go updates the connection before each PING,
  // in addition to the updates that answer DATA.
  static constexpr uint32_t kWindowUpdatesPerDataFrame = 4;
  // Clients send one; the second is slack.
  static constexpr uint32_t kPingsPerFrameSent = 2;
  // A gRPC message may put its five-byte prefix in a frame of its own.
  static constexpr uint32_t kSmallDataPerRequest = 2;

  using Frame = Http2Frame;

  const char* OnFrame(const Frame& frame, Time now);
  const char* OnHeaders(const Frame& frame, Time now);
  const char* OnData(const Frame& frame, Time now);
  const char* OnRequestEnd(Time now);

  Http2FrameReader frames_{Http2FrameReader::kPrefaceBytes};
  Http2HeaderBlock block_;
  bool in_header_frame_ = false;  // the latest frame is HEADERS or CONTINUATION
  uint64_t num_header_blocks_ = 0;
  uint32_t last_request_ = 0;  // the highest stream id so far; new ids must be higher
  RateLimit pings_{100, 20};
  RateLimit settings_{100, 2};  // grpc-java sends one whenever its PINGs justify a larger window
  RateLimit resets_{2000, 1000};
  RateLimit window_updates_{10'000, 1000};
  RateLimit small_data_{10'000, 1000};  // not counting kSmallDataPerRequest
  RateLimit empty_data_{100, 10};
  RateLimit request_ends_{100, 10};  // not counting one for each request with a body
  RateLimit others_{1000, 100};      // PRIORITY, GOAWAY, frames of unknown types
  RateLimit invalid_{200, 20};
};

}  // namespace lockstep::router
