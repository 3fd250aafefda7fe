#include "router/front/http2/frame_guard.h"

#include <algorithm>

namespace lockstep::router {
namespace {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};

constexpr uint8_t kEndStream = 0x1;
constexpr uint8_t kEndHeaders = 0x4;
// Content that is cut into smaller frames than this costs more than it brings.
constexpr uint32_t kSmallDataBytes = 256;

}  // namespace

const char* FrameGuard::Look(std::string_view bytes, Time now) {
  while (!bytes.empty()) {
    if (num_skipped_bytes_ > 0) {
      const auto skipped =
          static_cast<size_t>(std::min<uint64_t>(num_skipped_bytes_, bytes.size()));
      num_skipped_bytes_ -= skipped;
      bytes.remove_prefix(skipped);
      continue;
    }
    const size_t taken = std::min(kFrameHeaderBytes - num_header_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + num_header_bytes_);
    num_header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (num_header_bytes_ < kFrameHeaderBytes) return nullptr;
    num_header_bytes_ = 0;
    const Frame frame = {
        .num_bytes = uint32_t{header_[0]} << 16 | uint32_t{header_[1]} << 8 | header_[2],
        .type = header_[3],
        .flags = header_[4],
        .stream = uint32_t{header_[5] & 0x7fu} << 24 | uint32_t{header_[6]} << 16 |
                  uint32_t{header_[7]} << 8 | header_[8]};
    if (const char* const reason = OnFrame(frame, now)) return reason;
    in_header_frame_ = frame.type == kHeaders || frame.type == kContinuation;
    num_skipped_bytes_ = frame.num_bytes;
  }
  return nullptr;
}

const char* FrameGuard::OnFrame(const Frame& frame, Time now) {
  if (frame.num_bytes > kMaxFrameBytes) return "a frame is larger than allowed";
  if (in_header_block_ && frame.type != kContinuation) return "a header block is interrupted";
  switch (frame.type) {
    case kHeaders:
      return OnHeaders(frame, now);
    case kContinuation:
      return OnContinuation(frame);
    case kData:
      return OnData(frame, now);
    case kPushPromise:
      return "a client pushes";
    case kReset:
      return resets_.Take(now) ? nullptr : "too many streams are reset";
    case kSettings:
      return settings_.Take(now) ? nullptr : "too many SETTINGS";
    case kPing:
      return pings_.Take(now) ? nullptr : "too many PINGs";
    case kWindowUpdate:
      return window_updates_.Take(now) ? nullptr : "too many WINDOW_UPDATEs";
    default:
      return others_.Take(now) ? nullptr : "too many frames without a request";
  }
}

const char* FrameGuard::OnHeaders(const Frame& frame, Time now) {
  if (frame.stream <= last_request_) {
    // Trailers; nghttp2 ignores those of a stream that is closed.
    if (const char* const reason = OnRequestEnd(now)) return reason;
  } else {
    last_request_ = frame.stream;
    if ((frame.flags & kEndStream) == 0) {
      request_ends_.Give(1);
      // Small requests are as welcome as large ones, however many a proxy sends on one connection.
      small_data_.Give(kSmallDataPerRequest);
    }
  }
  ++num_header_blocks_;
  in_header_block_ = (frame.flags & kEndHeaders) == 0;
  num_block_bytes_ = frame.num_bytes;
  num_continuations_ = 0;
  return nullptr;
}

const char* FrameGuard::OnContinuation(const Frame& frame) {
  if (!in_header_block_) return "a CONTINUATION continues nothing";
  in_header_block_ = (frame.flags & kEndHeaders) == 0;
  num_block_bytes_ += frame.num_bytes;
  if (++num_continuations_ > kMaxContinuations) return "too many CONTINUATIONs";
  return num_block_bytes_ > kMaxHeaderBlockBytes ? "a header block is too large" : nullptr;
}

const char* FrameGuard::OnData(const Frame& frame, Time now) {
  if ((frame.flags & kEndStream) != 0) return OnRequestEnd(now);
  if (frame.num_bytes == 0) return empty_data_.Take(now) ? nullptr : "too many empty DATA frames";
  if (frame.num_bytes >= kSmallDataBytes) return nullptr;
  return small_data_.Take(now) ? nullptr : "too many small DATA frames";
}

const char* FrameGuard::OnRequestEnd(Time now) {
  return request_ends_.Take(now) ? nullptr : "requests end that have not begun";
}

}  // namespace lockstep::router
