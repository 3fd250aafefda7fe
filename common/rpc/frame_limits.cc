#include "common/rpc/frame_limits.h"

namespace lockstep {

const char* FrameLimits::Look(std::string_view bytes, Time now) {
  return frames_.Read(bytes, [this, now](const Http2Frame& frame) { return OnFrame(frame, now); });
}

const char* FrameLimits::OnFrame(const Http2Frame& frame, Time now) {
  if (frame.num_bytes > kMaxFrameBytes) return "a frame is larger than allowed";
  const bool continues = frame.type == Http2Frame::kContinuation;
  if (in_header_block_ != continues) {
    return continues ? "a CONTINUATION continues nothing" : "a header block is interrupted";
  }
  switch (frame.type) {
    case Http2Frame::kContinuation:
      return OnBlockFrame(frame);
    case Http2Frame::kHeaders:
      num_block_bytes_ = 0;
      num_continuations_ = -1;
      if (!headers_.Take(now)) return "too many header blocks";
      return OnBlockFrame(frame);
    case Http2Frame::kPushPromise:
      return "a stream is promised";
    case Http2Frame::kData:
      if (frame.num_bytes > 0 || (frame.flags & Http2Frame::kEndStream) != 0) return nullptr;
      break;
    default:
      break;
  }
  return empty_.Take(now) ? nullptr : "too many frames that carry nothing";
}

const char* FrameLimits::OnBlockFrame(const Http2Frame& frame) {
  in_header_block_ = (frame.flags & Http2Frame::kEndHeaders) == 0;
  num_block_bytes_ += frame.num_bytes;
  if (++num_continuations_ > kMaxContinuations) return "too many CONTINUATIONs";
  return num_block_bytes_ > kMaxHeaderBlockBytes ? "a header block is too large" : nullptr;
}

}  // namespace lockstep
