#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/net/http2_frames.h"
#include "common/net/rate_limit.h"

namespace lockstep {

// Limits what the peer of an RpcSession can make the parser hold and do. Counts frames by their
// headers, before anything is decoded: the bytes and frames of a header block, and frames that cost
// work but carry nothing. The limits are wide, because gRPC's own library answers nearly every
// message with such frames. Pure.
class FrameLimits {
 public:
  using Time = RateLimit::Time;

  // `num_bytes_before`: see Http2FrameReader.
  explicit FrameLimits(uint64_t num_bytes_before) : frames_(num_bytes_before) {}

  // Checks the next bytes of the connection, from its first byte on. Null: they may be parsed.
  // Otherwise: why the connection must end.
  const char* Look(std::string_view bytes, Time now);

  // Call when a DATA frame was sent, because the peer may answer it.
  void OnDataSent() { empty_.Give(kAnswersPerDataFrame); }

 private:
  static constexpr uint32_t kAnswersPerDataFrame = 8;

  const char* OnFrame(const Http2Frame& frame, Time now);

  Http2FrameReader frames_;
  Http2HeaderBlock block_;
  RateLimit empty_{2000, 1000};   // frames that carry nothing
  RateLimit headers_{1000, 500};  // header blocks
};

}  // namespace lockstep
