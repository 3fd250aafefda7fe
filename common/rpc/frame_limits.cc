#include "common/rpc/frame_limits.h"

namespace lockstep {

const char* FrameLimits::Look(std::string_view bytes, Time now) {
  return frames_.Read(bytes, [this, now](const Http2Frame& frame) { return OnFrame(frame, now); });
}

const char* FrameLimits::OnFrame(const Http2Frame& frame, Time now) {
  if (const char* const reason = block_.Look(frame)) return reason;
  switch (frame.type) {
    case Http2Frame::kContinuation:
      return nullptr;
    case Http2Frame::kHeaders:
      return headers_.Take(now) ? nullptr : "too many header blocks";
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

}  // namespace lockstep
