#include "router/front/http2/http2_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/net/http_date.h"
#include "common/runtime/release_memory.h"
#include "router/front/http2/http2_session_parts.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxQueuedFrames = 256;

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

Http2Session::Http2Session(const Http2Limits& limits, Open open)
    : limits_(limits), open_(std::move(open)) {
  LOCKSTEP_CHECK(nghttp2_session_server_new2(&session_, Http2SessionCallbacks(), this,
                                             Http2SessionOptions()) == 0,
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
                                      .read_callback = Http2BodyCallback()};
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
