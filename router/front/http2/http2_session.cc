#include "router/front/http2/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/net/http_date.h"
#include "common/runtime/release_memory.h"

namespace lockstep::router {
namespace {

// Counted for each field of a decoded header in addition to its characters (RFC 9113, 6.5.2).
constexpr size_t kFieldBytes = 32;
// A decoded header that exceeds the limit by this factor is an attack: the connection ends.
constexpr size_t kHostileHeaderFactor = 4;
constexpr size_t kMaxQueuedFrames = 256;
constexpr size_t kMaxAcknowledgements = 200;
constexpr size_t kDynamicTableBytes = 4096;
// The last stream id of a GOAWAY that refuses no stream yet (RFC 9113, 6.8).
constexpr int32_t kLastStreamOfNotice = 0x7fffffff;
// Sent after that GOAWAY. A client that answers this PING has read it.
constexpr std::array<uint8_t, 8> kEndPing = {'g', 'o', 'i', 'n', 'g', 'o', 'f', 'f'};

std::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

nghttp2_nv NameValue(const HeaderList::Field& field) {
  // nghttp2 copies name and value.
  return {.name = reinterpret_cast<uint8_t*>(const_cast<char*>(field.first.data())),
          .value = reinterpret_cast<uint8_t*>(const_cast<char*>(field.second.data())),
          .namelen = field.first.size(),
          .valuelen = field.second.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

std::vector<nghttp2_nv> NameValues(const HeaderList& fields) {
  std::vector<nghttp2_nv> values;
  values.reserve(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) values.push_back(NameValue(fields[i]));
  return values;
}

}  // namespace

struct Http2Session::Stream {
  StreamId id = 0;
  std::shared_ptr<StreamHandler> handler;  // null until the header is complete
  HeaderList fields;                       // until the header is complete
  size_t num_header_bytes = 0;
  bool header_too_large = false;
  bool body_open = true;
  bool answered = false;        // the head was submitted
  bool output_untaken = false;  // part of `output` was not sent yet
  bool last = false;            // `output` is the last of the answer
  size_t num_held_back = 0;     // body bytes not yet added back to the window
  std::string output;           // taken from the handler
  size_t num_filled = 0;        // bytes of `output` that were put into frames
  HeaderList trailers;
  Time body_since;    // arrival of the header
  Time output_since;  // when output was taken or last put into a frame
};

// nghttp2's callbacks. They return 0 or an nghttp2 error.
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

  // Made once; nghttp2 copies them.
  static const nghttp2_session_callbacks* Get() {
    static const nghttp2_session_callbacks* const callbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      LOCKSTEP_CHECK(nghttp2_session_callbacks_new(&made) == 0, "no memory");
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, &OnBeginHeaders);
      nghttp2_session_callbacks_set_on_header_callback(made, &OnHeader);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, &OnFrame);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &OnData);
      nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, &OnInvalidFrame);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, &OnSent);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, &OnStreamClose);
      return made;
    }();
    return callbacks;
  }

  static const nghttp2_option* Options() {
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
};

Http2Session::Http2Session(const Http2Limits& limits, Open open)
    : limits_(limits), open_(std::move(open)) {
  LOCKSTEP_CHECK(nghttp2_session_server_new2(&session_, Http2Callbacks::Get(), this,
                                             Http2Callbacks::Options()) == 0,
                 "no memory for an HTTP/2 session");
  const std::array<nghttp2_settings_entry, 4> settings = {
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_concurrent_streams},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window_bytes},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.max_header_list_bytes)},
       {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<int32_t>(limits.connection_window_bytes));
}

Http2Session::~Http2Session() {
  while (!streams_.empty()) CloseStream(streams_.begin()->first);
  nghttp2_session_del(session_);
}

bool Http2Session::Receive(std::string_view bytes, Time now) {
  if (violated()) return false;
  now_ = now;
  if (const char* const reason = guard_.Look(bytes, now)) {
    Violate(reason);
    return false;
  }
  const ssize_t taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  // Protocol errors that nghttp2 answers itself are not errors here; its answer is in Send.
  if (taken < 0) Violate("the connection does not follow the protocol");
  return !violated();
}

void Http2Session::Violate(const char* reason) {
  if (violated()) return;
  violation_ = reason;
  nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
}

void Http2Session::OpenStreamOf(Stream& stream, bool ends) {
  if (stream.header_too_large) return RefuseHeader(stream);
  any_request_ = true;
  stream.handler =
      open_({.fields = std::exchange(stream.fields, HeaderList()), .ends = ends}, stream.id);
  LOCKSTEP_CHECK(stream.handler != nullptr, "a stream has a handler");
  if (!ends && stream.handler->AwaitsContinue()) SubmitContinue(stream);
}

void Http2Session::SubmitContinue(const Stream& stream) {
  const HeaderList head = {{":status", "100"}};  // must outlive `fields`, which point into it
  const std::vector<nghttp2_nv> fields = NameValues(head);
  nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, fields.data(),
                         fields.size(), nullptr);
}

void Http2Session::RefuseHeader(Stream& stream) {
  stream.last = true;
  // The grpc fields are for gRPC clients, which ignore the HTTP status.
  SubmitHead(stream,
             HeaderList{{":status", "431"},
                        {"content-length", "0"},
                        {"grpc-status", "8"},
                        {"grpc-message", "the header is too large"}},
             /*ends=*/true);
}

void Http2Session::EndBody(Stream& stream) {
  if (!std::exchange(stream.body_open, false)) return;
  --num_open_bodies_;
  if (stream.handler != nullptr) stream.handler->OnBodyEnd();
}

void Http2Session::CloseStream(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const std::unique_ptr<Stream> stream = std::move(found->second);
  streams_.erase(found);
  if (stream->body_open) --num_open_bodies_;
  if (stream->output_untaken) --num_untaken_outputs_;
  if (stream->handler != nullptr) stream->handler->OnClosed();
}

void Http2Session::Wake(StreamId id, Time now) {
  now_ = now;
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  if (stream.handler == nullptr || stream.last) return;
  GrantHeldBack(stream);
  if (!stream.output_untaken) TakeOutput(stream);
}

void Http2Session::TakeOutput(Stream& stream) {
  StreamHandler::Output output = stream.handler->Take();
  if (output.empty()) return;
  if (!stream.answered && !output.head.has_value()) {  // the handler gave up
    stream.last = true;
    return Reset(stream.id, NGHTTP2_CANCEL);
  }
  stream.last = output.last;
  stream.trailers = std::move(output.trailers);
  stream.output = std::move(output.body);
  stream.num_filled = 0;
  const bool ends = output.last && stream.output.empty() && stream.trailers.size() == 0;
  if (output.head.has_value() && !stream.answered) {
    SubmitHead(stream, *output.head, ends);
    // For the handler, a head without a body counts as written at once.
    if (ends) return;
    if (stream.output.empty() && !stream.last) {
      written_.push_back(stream.id);
      return;
    }
  }
  stream.output_untaken = true;
  stream.output_since = now_;
  ++num_untaken_outputs_;
  nghttp2_session_resume_data(session_, stream.id);
}

void Http2Session::SubmitHead(Stream& stream, const HeaderList& head, bool ends) {
  stream.answered = true;
  std::vector<nghttp2_nv> fields = NameValues(head);
  fields.push_back(NameValue({"date", HttpDate()}));
  const nghttp2_data_provider body = {.source = {.ptr = &stream},
                                      .read_callback = &Http2Callbacks::OnFill};
  const int error = nghttp2_submit_response(session_, stream.id, fields.data(), fields.size(),
                                            ends ? nullptr : &body);
  if (error != 0) Reset(stream.id, NGHTTP2_INTERNAL_ERROR);
}

void Http2Session::SubmitTrailers(Stream& stream) {
  const std::vector<nghttp2_nv> fields = NameValues(stream.trailers);
  if (nghttp2_submit_trailer(session_, stream.id, fields.data(), fields.size()) != 0) {
    Reset(stream.id, NGHTTP2_INTERNAL_ERROR);
  }
}

void Http2Session::Reset(StreamId id, uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, error);
}

ptrdiff_t Http2Session::Fill(Stream& stream, uint8_t* room, size_t max_bytes, uint32_t* flags) {
  if (!stream.output_untaken) return NGHTTP2_ERR_DEFERRED;
  const size_t num_bytes = std::min(max_bytes, stream.output.size() - stream.num_filled);
  std::memcpy(room, stream.output.data() + stream.num_filled, num_bytes);
  stream.num_filled += num_bytes;
  stream.output_since = now_;
  if (stream.num_filled < stream.output.size()) return static_cast<ptrdiff_t>(num_bytes);
  stream.output_untaken = false;
  --num_untaken_outputs_;
  ReleaseMemory(stream.output);
  if (!stream.last) {
    written_.push_back(stream.id);
    return static_cast<ptrdiff_t>(num_bytes);
  }
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (stream.trailers.size() > 0) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(stream);
  }
  return static_cast<ptrdiff_t>(num_bytes);
}

void Http2Session::Send(size_t max_bytes, Time now, std::string& out) {
  now_ = now;
  do {
    TellWritten();
    while (out.size() < max_bytes) {
      const uint8_t* data = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size < 0) Violate("frames cannot be made");
      if (size <= 0) break;
      out.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    }
  } while (!written_.empty());
}

void Http2Session::TellWritten() {
  for (const StreamId id : std::exchange(written_, {})) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    Stream& stream = *found->second;
    stream.handler->OnWritten();
    GrantHeldBack(stream);
    // Takes output that was signalled while the previous output was unsent.
    if (!stream.output_untaken) TakeOutput(stream);
  }
}

void Http2Session::GrantHeldBack(Stream& stream) {
  if (stream.num_held_back == 0 || !stream.handler->WantsBody()) return;
  nghttp2_session_consume_stream(session_, stream.id, std::exchange(stream.num_held_back, 0));
}

void Http2Session::Ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

void Http2Session::AnnounceEnd() {
  if (going_away_ || std::exchange(end_announced_, true)) return;
  nghttp2_submit_shutdown_notice(session_);
}

void Http2Session::GoAway() {
  if (std::exchange(going_away_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void Http2Session::EndStalledStreams(const StallTimeouts& timeouts, Time now) {
  now_ = now;
  for (const auto& [id, stream] : streams_) {
    const bool conversation = stream->handler != nullptr && stream->handler->IsConversation();
    const bool slow_body =
        stream->body_open && !conversation && now - stream->body_since > timeouts.body;
    const bool slow_reader = stream->output_untaken && now - stream->output_since > timeouts.write;
    if (slow_body || slow_reader) Reset(id, NGHTTP2_CANCEL);
  }
}

bool Http2Session::over() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

bool Http2Session::backed_up() const {
  return nghttp2_session_get_outbound_queue_size(session_) > kMaxQueuedFrames;
}

}  // namespace lockstep::router
