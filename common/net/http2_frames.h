#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// The header of an HTTP/2 frame (RFC 9113, 4.1).
struct Http2Frame {
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kReset = 3,
    kSettings = 4,
    kPushPromise = 5,
    kPing = 6,
    kWindowUpdate = 8,
    kContinuation = 9,
  };
  static constexpr uint8_t kEndStream = 0x1;
  static constexpr uint8_t kEndHeaders = 0x4;

  uint32_t num_bytes;  // after the header
  uint8_t type;
  uint8_t flags;
  uint32_t stream;
};

// Checks the header blocks of a connection: their size, and that a CONTINUATION follows exactly
// where it must. A decoder holds a whole block, so its size must be bounded.
class Http2HeaderBlock {
 public:
  static constexpr uint32_t kMaxFrameBytes = 16 << 10;  // the protocol's default
  static constexpr size_t kMaxBytes = 64 << 10;
  static constexpr int kMaxContinuations = 8;

  // Call for each frame of the connection, in order. Null: the frame may be parsed. Otherwise: why
  // the connection must end.
  const char* Look(const Http2Frame& frame) {
    if (frame.num_bytes > kMaxFrameBytes) return "a frame is larger than allowed";
    const bool continues = frame.type == Http2Frame::kContinuation;
    if (open_ != continues) {
      return continues ? "a CONTINUATION continues nothing" : "a header block is interrupted";
    }
    if (!continues && frame.type != Http2Frame::kHeaders) return nullptr;
    open_ = (frame.flags & Http2Frame::kEndHeaders) == 0;
    num_bytes_ = frame.num_bytes + (continues ? num_bytes_ : 0);
    num_continuations_ = continues ? num_continuations_ + 1 : 0;
    if (num_continuations_ > kMaxContinuations) return "too many CONTINUATIONs";
    return num_bytes_ > kMaxBytes ? "a header block is too large" : nullptr;
  }

  bool open() const { return open_; }              // a CONTINUATION must follow
  size_t num_bytes() const { return num_bytes_; }  // announced size of the latest block

 private:
  bool open_ = false;
  size_t num_bytes_ = 0;
  int num_continuations_ = 0;
};

// Finds the frames in the bytes of a connection by their 9-byte headers. Keeps no payloads.
class Http2FrameReader {
 public:
  // `num_bytes_before`: bytes before the first frame. A client's connection begins with a preface
  // of 24 bytes (RFC 9113, 3.4).
  static constexpr uint64_t kPrefaceBytes = 24;
  explicit Http2FrameReader(uint64_t num_bytes_before) : num_skipped_bytes_(num_bytes_before) {}

  // Takes the next bytes of the connection. Calls `on_frame` for each complete frame header. If
  // that returns an error, stops and returns it. Otherwise returns null.
  template <typename OnFrame>
  const char* Read(std::string_view bytes, OnFrame on_frame) {
    while (!bytes.empty()) {
      if (num_skipped_bytes_ > 0) {
        const auto skipped =
            static_cast<size_t>(std::min<uint64_t>(num_skipped_bytes_, bytes.size()));
        num_skipped_bytes_ -= skipped;
        bytes.remove_prefix(skipped);
        continue;
      }
      const size_t taken = std::min(kHeaderBytes - num_header_bytes_, bytes.size());
      std::copy_n(bytes.begin(), taken, header_.begin() + num_header_bytes_);
      num_header_bytes_ += taken;
      bytes.remove_prefix(taken);
      if (num_header_bytes_ < kHeaderBytes) return nullptr;
      num_header_bytes_ = 0;
      const Http2Frame frame = Parse();
      if (const char* const error = on_frame(frame)) return error;
      num_skipped_bytes_ = frame.num_bytes;
    }
    return nullptr;
  }

  // True if part of the latest frame's payload is still missing.
  bool inside_frame() const { return num_skipped_bytes_ > 0; }

 private:
  static constexpr size_t kHeaderBytes = 9;

  Http2Frame Parse() const {
    return {.num_bytes = uint32_t{header_[0]} << 16 | uint32_t{header_[1]} << 8 | header_[2],
            .type = header_[3],
            .flags = header_[4],
            .stream = uint32_t{header_[5] & 0x7fu} << 24 | uint32_t{header_[6]} << 16 |
                      uint32_t{header_[7]} << 8 | header_[8]};
  }

  uint64_t num_skipped_bytes_;  // payload bytes still to skip
  std::array<unsigned char, kHeaderBytes> header_ = {};
  size_t num_header_bytes_ = 0;
};

}  // namespace lockstep
