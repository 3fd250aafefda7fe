#include "router/front/http2/frame_guard.h"

namespace lockstep::router {
namespace {

// DATA frames below this size cost more work than they bring data.
constexpr uint32_t kSmallDataBytes = 256;

}  // namespace

const char* FrameGuard::Look(std::string_view bytes, Time now) {
  return frames_.Read(bytes, [this, now](const Frame& frame) {
    if (const char* const reason = OnFrame(frame, now)) return reason;
    in_header_frame_ = frame.type == Frame::kHeaders || frame.type == Frame::kContinuation;
    return static_cast<const char*>(nullptr);
  });
}

const char* FrameGuard::OnFrame(const Frame& frame, Time now) {
  if (const char* const reason = block_.Look(frame)) return reason;
  switch (frame.type) {
    case Frame::kHeaders:
      return OnHeaders(frame, now);
    case Frame::kContinuation:
      return nullptr;
    case Frame::kData:
      return OnData(frame, now);
    case Frame::kPushPromise:
      return "a client pushes";
    case Frame::kReset:
      return resets_.Take(now) ? nullptr : "too many streams are reset";
    case Frame::kSettings:
      return settings_.Take(now) ? nullptr : "too many SETTINGS";
    case Frame::kPing:
      return pings_.Take(now) ? nullptr : "too many PINGs";
    case Frame::kWindowUpdate:
      return window_updates_.Take(now) ? nullptr : "too many WINDOW_UPDATEs";
    default:
      return others_.Take(now) ? nullptr : "too many frames without a request";
  }
}

const char* FrameGuard::OnHeaders(const Frame& frame, Time now) {
  if (frame.stream <= last_request_) {
    // Trailers. nghttp2 ignores trailers of closed streams.
    if (const char* const reason = OnRequestEnd(now)) return reason;
  } else {
    last_request_ = frame.stream;
    if ((frame.flags & Frame::kEndStream) == 0) {
      request_ends_.Give(1);
      // A proxy may send many small requests on one connection; the limit must not hit it.
      small_data_.Give(kSmallDataPerRequest);
    }
  }
  ++num_header_blocks_;
  return nullptr;
}

const char* FrameGuard::OnData(const Frame& frame, Time now) {
  if ((frame.flags & Frame::kEndStream) != 0) return OnRequestEnd(now);
  if (frame.num_bytes == 0) return empty_data_.Take(now) ? nullptr : "too many empty DATA frames";
  if (frame.num_bytes >= kSmallDataBytes) return nullptr;
  return small_data_.Take(now) ? nullptr : "too many small DATA frames";
}

const char* FrameGuard::OnRequestEnd(Time now) {
  return request_ends_.Take(now) ? nullptr : "requests end that have not begun";
}

}  // namespace lockstep::router
