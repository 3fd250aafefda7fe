#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "router/front/http2/http2_session_parts.h"

namespace lockstep::router {
namespace {

// Counted for each field of a decoded header in addition to its characters (RFC 9113, 6.5.2).
constexpr size_t kFieldBytes = 32;
// A decoded header that exceeds the limit by this factor is an attack: the connection ends.
constexpr size_t kHostileHeaderFactor = 4;
constexpr size_t kMaxAcknowledgements = 200;
constexpr size_t kDynamicTableBytes = 4096;
// The last stream id of a GOAWAY that refuses no stream yet (RFC 9113, 6.8).
constexpr int32_t kLastStreamOfNotice = 0x7fffffff;
// Sent after that GOAWAY. A client that answers this PING has read it.
constexpr std::array<uint8_t, 8> kEndPing = {'g', 'o', 'i', 'n', 'g', 'o', 'f', 'f'};

std::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

// They return 0 or an nghttp2 error.
struct Http2Callbacks {
  static Http2Session& SessionOf(void* user_data) { return *static_cast<Http2Session*>(user_data); }
  static Http2Session::Stream* StreamOf(nghttp2_session* session, int32_t id) {
    return static_cast<Http2Session::Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int OnBeginHeaders(nghttp2_session* native, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    Http2Session& session = SessionOf(user_data);
    auto stream = std::make_unique<Http2Session::Stream>();
    stream->id = frame->hd.stream_id;
    stream->body_since = session.now_;
    ++session.num_open_bodies_;
    nghttp2_session_set_stream_user_data(native, stream->id, stream.get());
    session.streams_[stream->id] = std::move(stream);
    return 0;
  }

  static int OnHeader(nghttp2_session* native, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t,
                      void* user_data) {
    Http2Session::Stream* const stream = StreamOf(native, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    Http2Session& session = SessionOf(user_data);
    stream->num_header_bytes += name_bytes + value_bytes + kFieldBytes;
    if (stream->num_header_bytes > kHostileHeaderFactor * session.limits_.max_header_list_bytes) {
      session.Violate("a header is far too large once it is decoded");
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // trailers are ignored
    if (stream->num_header_bytes > session.limits_.max_header_list_bytes) {
      stream->header_too_large = true;
      stream->fields = HeaderList();
    } else {
      stream->fields.Add(View(name, name_bytes), View(value, value_bytes));
    }
    return 0;
  }

  static int OnFrame(nghttp2_session* native, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type == NGHTTP2_PING) return OnPing(frame->ping, SessionOf(user_data));
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Session::Stream* const stream = StreamOf(native, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      SessionOf(user_data).OpenStreamOf(*stream, ends);
    }
    if (ends) SessionOf(user_data).EndBody(*stream);
    return 0;
  }

  static int OnPing(const nghttp2_ping& ping, Http2Session& session) {
    const bool answer = (ping.hd.flags & NGHTTP2_FLAG_ACK) != 0;
    if (answer && session.end_announced_ && std::ranges::equal(ping.opaque_data, kEndPing)) {
      session.GoAway();
    }
    return 0;
  }

  static int OnData(nghttp2_session* native, uint8_t, int32_t id, const uint8_t* data, size_t size,
                    void*) {
    nghttp2_session_consume_connection(native, size);
    Http2Session::Stream* const stream = StreamOf(native, id);
    if (stream == nullptr || stream->handler == nullptr) return 0;
    stream->handler->OnBody(View(data, size));
    if (stream->handler->WantsBody()) {
      nghttp2_session_consume_stream(native, id, size);
    } else {
      stream->num_held_back += size;
    }
    return 0;
  }

  static int OnInvalidFrame(nghttp2_session*, const nghttp2_frame*, int, void* user_data) {
    Http2Session& session = SessionOf(user_data);
    if (session.guard_.OnInvalidFrame(session.now_)) return 0;
    session.Violate("too many frames are refused");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int OnSent(nghttp2_session* native, const nghttp2_frame* frame, void* user_data) {
    Http2Session& session = SessionOf(user_data);
    switch (frame->hd.type) {
      case NGHTTP2_GOAWAY:
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR) session.sent_error_ = true;
        // Not earlier: nghttp2 sends PINGs before all other waiting frames.
        if (frame->goaway.last_stream_id == kLastStreamOfNotice) {
          nghttp2_submit_ping(native, NGHTTP2_FLAG_NONE, kEndPing.data());
        }
        return 0;
      case NGHTTP2_DATA:
        session.guard_.OnDataSent();
        break;
      case NGHTTP2_HEADERS:
        session.guard_.OnHeadersSent();
        break;
      default:
        return 0;
    }
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const Http2Session::Stream* const stream = StreamOf(native, frame->hd.stream_id);
    // The answer ended before the body did; the rest is not needed.
    if (ends && stream != nullptr && stream->body_open) {
      session.Reset(stream->id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, int32_t id, uint32_t, void* user_data) {
    SessionOf(user_data).CloseStream(id);
    return 0;
  }

  static ssize_t OnFill(nghttp2_session*, int32_t, uint8_t* room, size_t max_bytes, uint32_t* flags,
                        nghttp2_data_source* source, void* user_data) {
    auto& stream = *static_cast<Http2Session::Stream*>(source->ptr);
    return SessionOf(user_data).Fill(stream, room, max_bytes, flags);
  }
};

const nghttp2_session_callbacks* Http2SessionCallbacks() {
  static const nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    LOCKSTEP_CHECK(nghttp2_session_callbacks_new(&made) == 0, "no memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, &Http2Callbacks::OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, &Http2Callbacks::OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, &Http2Callbacks::OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &Http2Callbacks::OnData);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made,
                                                                 &Http2Callbacks::OnInvalidFrame);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, &Http2Callbacks::OnSent);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, &Http2Callbacks::OnStreamClose);
    return made;
  }();
  return callbacks;
}

const nghttp2_option* Http2SessionOptions() {
  static const nghttp2_option* const options = [] {
    nghttp2_option* made = nullptr;
    LOCKSTEP_CHECK(nghttp2_option_new(&made) == 0, "no memory");
    // The session renews windows as handlers take the data.
    nghttp2_option_set_no_auto_window_update(made, 1);
    nghttp2_option_set_no_closed_streams(made, 1);
    // gRPC clients send such values and expect an answer, not a reset.
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(made, 1);
    nghttp2_option_set_max_outbound_ack(made, kMaxAcknowledgements);
    nghttp2_option_set_max_deflate_dynamic_table_size(made, kDynamicTableBytes);
#ifdef LOCKSTEP_NGHTTP2_HAS_RESET_RATE_LIMIT
    // FrameGuard limits resets. nghttp2's own limit would end clients that often cancel.
    nghttp2_option_set_stream_reset_rate_limit(made, UINT32_MAX, UINT32_MAX);
#endif
    return made;
  }();
  return options;
}

nghttp2_data_source_read_callback Http2BodyCallback() { return &Http2Callbacks::OnFill; }

}  // namespace lockstep::router
