#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/router/front/http2_client.h"
#include "tests/support/http2_frames.h"

namespace lockstep::testing {

// Asks over HTTP/2 and reads whole answers, one request after the other on one connection.
class Http2Asker {
 public:
  struct Answer {
    std::vector<std::map<std::string, std::string>> heads;  // the final one, and those before it
    std::string body;
    bool complete = false;  // false: the stream was reset, or the connection ended

    const std::map<std::string, std::string>& head() const { return heads.back(); }
    std::string status() const { return heads.empty() ? "" : head().at(":status"); }
  };

  explicit Http2Asker(uint16_t port) : client_(port) {
    nghttp2_hd_inflate_new(&inflater_);
    client_.Send(Preface());
  }
  Http2Asker(const Http2Asker&) = delete;
  Http2Asker& operator=(const Http2Asker&) = delete;
  ~Http2Asker() { nghttp2_hd_inflate_del(inflater_); }

  // Without a body the request ends with its head.
  Answer Ask(const Fields& fields, std::string_view body = {}) {
    const uint32_t stream = next_stream_;
    next_stream_ += 2;
    const uint8_t end = body.empty() ? kEndStream : 0;
    client_.Send(Frame(kHeaders, static_cast<uint8_t>(kEndHeaders | end), stream, Hpack(fields)));
    if (!body.empty()) client_.Send(Frame(kData, kEndStream, stream, body));
    return Read(stream);
  }

 private:
  Answer Read(uint32_t stream) {
    Answer answer;
    for (;;) {
      const std::optional<SeenFrame> frame = client_.Next();
      if (!frame.has_value() || frame->type == kGoAway) return answer;
      if (frame->type == kSettings && (frame->flags & kAck) == 0) {
        client_.Send(Frame(kSettings, kAck, 0, ""));
      }
      if (frame->type == kHeaders) answer.heads.push_back(Inflate(frame->payload));
      if (frame->stream != stream) continue;
      if (frame->type == kReset) return answer;
      if (frame->type == kData) answer.body += frame->payload;
      answer.complete =
          (frame->type == kData || frame->type == kHeaders) && (frame->flags & kEndStream) != 0;
      if (answer.complete) return answer;
    }
  }
  // A whole header block.
  std::map<std::string, std::string> Inflate(const std::string& block) {
    std::map<std::string, std::string> fields;
    const auto* at = reinterpret_cast<const uint8_t*>(block.data());
    size_t left = block.size();
    for (;;) {
      nghttp2_nv field = {};
      int flags = 0;
      const ssize_t taken =
          nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, /*in_final=*/1);
      if (taken < 0) return fields;
      at += taken;
      left -= static_cast<size_t>(taken);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        fields[std::string(reinterpret_cast<char*>(field.name), field.namelen)] =
            std::string(reinterpret_cast<char*>(field.value), field.valuelen);
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return fields;
  }

  Http2Client client_;
  nghttp2_hd_inflater* inflater_ = nullptr;
  uint32_t next_stream_ = 1;
};

}  // namespace lockstep::testing
