#include <memory>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "common/rpc/rpc_session_parts.h"

namespace lockstep {
namespace {

// Counted for each field of a decoded header in addition to its characters (RFC 9113, 6.5.2).
constexpr size_t kFieldBytes = 32;
constexpr size_t kMaxAcknowledgements = 200;

std::string_view ViewOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

int RpcCallbacks::OnBeginHeaders(nghttp2_session* native, const nghttp2_frame* frame,
                                 void* user_data) {
  RpcSession& session = Of(user_data);
  const int32_t id = frame->hd.stream_id;
  if (session.role_ == RpcRole::kClient || frame->hd.type != NGHTTP2_HEADERS) return 0;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  auto call = std::make_unique<RpcSession::CallState>(session.limits_);
  call->id = id;
  nghttp2_session_set_stream_user_data(native, id, call.get());
  session.calls_[id] = std::move(call);
  return 0;
}

int RpcCallbacks::OnHeader(nghttp2_session* native, const nghttp2_frame* frame, const uint8_t* name,
                           size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t,
                           void* user_data) {
  RpcSession::CallState* const call = CallOf(native, frame->hd.stream_id);
  if (call == nullptr) return 0;
  RpcSession& session = Of(user_data);
  call->num_header_bytes += name_bytes + value_bytes + kFieldBytes;
  if (call->num_header_bytes > kMaxRpcHeaderListBytes) {
    session.Violate("a header is too large once it is decoded");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  session.OnField(*call, ViewOf(name, name_bytes), ViewOf(value, value_bytes));
  return 0;
}

int RpcCallbacks::OnFrame(nghttp2_session* native, const nghttp2_frame* frame, void* user_data) {
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  RpcSession::CallState* const call = CallOf(native, frame->hd.stream_id);
  if (call == nullptr) return 0;
  RpcSession& session = Of(user_data);
  const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (session.role_ == RpcRole::kClient) {
    if (ends) session.OnAnswerEnd(*call);
    return 0;
  }
  if (frame->hd.type == NGHTTP2_HEADERS && !call->opened) session.OnHead(*call);
  if (ends) session.OnRequestEnd(*call);
  return 0;
}

int RpcCallbacks::OnData(nghttp2_session* native, uint8_t, int32_t id, const uint8_t* data,
                         size_t size, void* user_data) {
  nghttp2_session_consume_connection(native, size);
  RpcSession::CallState* const call = CallOf(native, id);
  if (call != nullptr) Of(user_data).OnData(*call, ViewOf(data, size));
  return 0;
}

int RpcCallbacks::OnSent(nghttp2_session* native, const nghttp2_frame* frame, void* user_data) {
  RpcSession& session = Of(user_data);
  if (frame->hd.type == NGHTTP2_DATA) session.frames_.OnDataSent();
  if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) return 0;
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  const RpcSession::CallState* const call = CallOf(native, frame->hd.stream_id);
  // The answer ended before the client's side did; the rest is not needed.
  if (session.role_ == RpcRole::kServer && call != nullptr && !call->request_over) {
    session.Reset(call->id, NGHTTP2_NO_ERROR);
  }
  return 0;
}

int RpcCallbacks::OnStreamClose(nghttp2_session*, int32_t id, uint32_t error, void* user_data) {
  Of(user_data).OnClose(id, error);
  return 0;
}

ssize_t RpcCallbacks::OnFill(nghttp2_session*, int32_t, uint8_t* room, size_t max_bytes,
                             uint32_t* flags, nghttp2_data_source* source, void* user_data) {
  return Of(user_data).Fill(*static_cast<RpcSession::CallState*>(source->ptr), room, max_bytes,
                            flags);
}

// Made once; nghttp2 copies them.
const nghttp2_session_callbacks* RpcCallbacks::Get() {
  static const nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    LOCKSTEP_CHECK(nghttp2_session_callbacks_new(&made) == 0, "no memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, &OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, &OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, &OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &OnData);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, &OnSent);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, &OnStreamClose);
    return made;
  }();
  return callbacks;
}

const nghttp2_option* RpcCallbacks::Options() {
  static const nghttp2_option* const options = [] {
    nghttp2_option* made = nullptr;
    LOCKSTEP_CHECK(nghttp2_option_new(&made) == 0, "no memory");
    // The session renews windows as messages are taken.
    nghttp2_option_set_no_auto_window_update(made, 1);
    nghttp2_option_set_no_closed_streams(made, 1);
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(made, 1);
    nghttp2_option_set_max_outbound_ack(made, kMaxAcknowledgements);
    return made;
  }();
  return options;
}

}  // namespace lockstep
