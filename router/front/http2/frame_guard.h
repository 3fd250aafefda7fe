#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/net/http2_frames.h"
#include "common/net/rate_limit.h"

namespace lockstep::router {

// Counts the frames of an HTTP/2 client by their nine-byte headers, before anything of them is
// decoded. It bounds what a parser can be made to hold and to do: bytes and frames of a header
// block, frames that cost work and carry nothing, per second. Knows neither sockets nor requests.
class FrameGuard {
 public:
  using Time = RateLimit::Time;

  // What comes next on the connection, from its first byte on. Null: it may be parsed; otherwise
  // why the connection must end, and nothing more is looked at.
  const char* Look(std::string_view bytes, Time now);

  // The frame header of a header block has come, and the block is not complete.
  bool in_header_block() const {
    return block_.open() || (in_header_frame_ && frames_.inside_frame());
  }
  // That it has so far, as its frames announce them.
  size_t num_header_block_bytes() const { return block_.open() ? block_.num_bytes() : 0; }
  // Those that have begun.
  uint64_t num_header_blocks() const { return num_header_blocks_; }
  // A DATA frame was sent. Clients grant its window again, and measure the way with a PING: those
  // of grpc-go, grpc-java and hyper send one as soon as DATA comes and none of theirs is
  // unanswered.
  void OnDataSent() {
    window_updates_.Give(kWindowUpdatesPerDataFrame);
    pings_.Give(kPingsPerFrameSent);
  }
  // A HEADERS frame was sent. Go's own HTTP/2 client sends a PING with a reset once after each.
  void OnHeadersSent() { pings_.Give(kPingsPerFrameSent); }
  // The client sent a frame that is refused. False: too many of them.
  bool OnInvalidFrame(Time now) { return invalid_.Take(now); }

 private:
  // Two for the stream and two for the connection: grpc-go sends an update of the connection before
  // each of its PINGs, beside those that DATA itself earns.
  static constexpr uint32_t kWindowUpdatesPerDataFrame = 4;
  // One is what clients send. The other one is slack.
  static constexpr uint32_t kPingsPerFrameSent = 2;
  // The five bytes before a message of gRPC may come in a frame of their own.
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
  uint32_t last_request_ = 0;  // the highest stream so far: ids of new ones rise
  RateLimit pings_{100, 20};
  RateLimit settings_{100, 2};  // one for each larger window that grpc-java finds by its PINGs
  RateLimit resets_{2000, 1000};
  RateLimit window_updates_{10'000, 1000};
  RateLimit small_data_{10'000, 1000};  // beyond that of small requests
  RateLimit empty_data_{100, 10};
  RateLimit request_ends_{100, 10};  // beyond one for each request that has a body
  RateLimit others_{1000, 100};      // PRIORITY, GOAWAY, frames of unknown types
  RateLimit invalid_{200, 20};
};

}  // namespace lockstep::router
