#include "common/rpc/rpc_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.h"
#include "common/net/percent_encoding.h"
#include "common/rpc/rpc_session_parts.h"
#include "common/rpc/rpc_status.h"
#include "common/status.h"

namespace lockstep {
namespace {

constexpr size_t kMaxTextBytes = 1024;  // of each stored header field

nghttp2_nv Field(std::string_view name, std::string_view value) {
  // nghttp2 copies name and value.
  return {.name = reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          .value = reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

RpcSession::RpcSession(RpcRole role, const RpcLimits& limits)
    : role_(role),
      limits_(limits),
      frames_(role == RpcRole::kServer ? Http2FrameReader::kPrefaceBytes : 0) {
  const auto make =
      role == RpcRole::kServer ? &nghttp2_session_server_new2 : &nghttp2_session_client_new2;
  LOCKSTEP_CHECK(make(&session_, RpcCallbacks::Get(), this, RpcCallbacks::Options()) == 0,
                 "no memory for an HTTP/2 session");
  std::vector<nghttp2_settings_entry> settings = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.call_window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(kMaxRpcHeaderListBytes)}};
  if (role == RpcRole::kServer) {
    settings.push_back({NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_calls});
  } else {
    settings.push_back({NGHTTP2_SETTINGS_ENABLE_PUSH, 0});
  }
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<int32_t>(limits.connection_window_bytes));
}

RpcSession::~RpcSession() { nghttp2_session_del(session_); }

bool RpcSession::Receive(std::string_view bytes, Time now) {
  if (violation_ != nullptr) return false;
  if (const char* const reason = frames_.Look(bytes, now)) {
    Violate(reason);
    return false;
  }
  const ssize_t taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  // Protocol errors that nghttp2 answers itself are not errors here; Pull returns its answer.
  if (taken < 0) Violate("the connection does not follow the protocol");
  return violation_ == nullptr;
}

void RpcSession::Violate(const char* reason) {
  if (violation_ != nullptr) return;
  violation_ = reason;
  nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
}

RpcSession::CallState* RpcSession::Find(CallId call) {
  const auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : found->second.get();
}

// --- input ---

void RpcSession::OnField(CallState& call, std::string_view name, std::string_view value) {
  std::string* const kept = name == ":path"          ? &call.path
                            : name == ":status"      ? &call.http_status
                            : name == "content-type" ? &call.content_type
                            : name == "grpc-status"  ? &call.code
                            : name == "grpc-message" ? &call.message_text
                                                     : nullptr;
  if (kept != nullptr) *kept = value.substr(0, kMaxTextBytes);
}

void RpcSession::OnHead(CallState& call) {
  call.opened = true;
  if (!call.content_type.starts_with("application/grpc")) {
    return Fail(call, InvalidArgument("only gRPC is served here"));
  }
  events_.push_back(
      {.kind = RpcEvent::Kind::kCall, .call = call.id, .bytes = call.path, .status = {}});
}

void RpcSession::OnData(CallState& call, std::string_view data) {
  const bool answered = role_ == RpcRole::kServer && call.finishing;
  // An answer of a proxy, such as 503 with a page. Its HTTP status says what is wrong.
  const bool no_grpc =
      role_ == RpcRole::kClient && !call.http_status.empty() && call.http_status != "200";
  if (call.end_told || answered || no_grpc) {
    nghttp2_session_consume_stream(session_, call.id, data.size());
    return;
  }
  if (call.held.empty()) {
    const size_t before = data.size();
    TakeMessages(call, data);
    nghttp2_session_consume_stream(session_, call.id, before - data.size());
  }
  if (data.empty() || call.end_told) return;
  // Until our SETTINGS arrive, the peer may use HTTP/2's default window, which may be larger.
  if (call.held.size() + data.size() > call.window_bytes) {
    return Fail(call, ResourceExhausted("more messages come than are asked for"));
  }
  call.held.append(data);
}

// Removes the allowed messages from `data`.
void RpcSession::TakeMessages(CallState& call, std::string_view& data) {
  std::vector<std::string> messages;
  const absl::Status status = call.reader.Take(data, messages);
  for (std::string& message : messages) {
    events_.push_back({.kind = RpcEvent::Kind::kMessage,
                       .call = call.id,
                       .bytes = std::move(message),
                       .status = {}});
  }
  if (!status.ok()) Fail(call, status);
}

void RpcSession::OnRequestEnd(CallState& call) {
  call.request_over = true;
  TellHalfClose(call);
}

void RpcSession::TellHalfClose(CallState& call) {
  if (!call.request_over || !call.held.empty() || call.end_told) return;
  if (std::exchange(call.half_close_told, true)) return;
  if (call.reader.inside_message()) {
    return Fail(call, InvalidArgument("the last message is not complete"));
  }
  events_.push_back(
      {.kind = RpcEvent::Kind::kHalfClose, .call = call.id, .bytes = {}, .status = {}});
}

void RpcSession::Allow(CallId id, uint32_t count, size_t max_bytes) {
  CallState* const call = Find(id);
  if (call == nullptr || call->end_told) return;
  call->reader.Allow(count, max_bytes);
  if (call->held.empty()) return;
  const std::string held = std::exchange(call->held, {});
  std::string_view rest = held;
  TakeMessages(*call, rest);
  nghttp2_session_consume_stream(session_, id, held.size() - rest.size());
  call->held = rest;
  TellHalfClose(*call);
}

void RpcSession::WidenWindow(CallId call, uint32_t num_bytes) {
  CallState* const found = Find(call);
  if (found == nullptr) return;
  found->window_bytes = num_bytes;
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, call,
                                        static_cast<int32_t>(num_bytes));
}

void RpcSession::OnClose(CallId id, uint32_t error) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const std::unique_ptr<CallState> call = std::move(found->second);
  calls_.erase(found);
  if (role_ == RpcRole::kServer) {
    const bool done = call->finishing && error == NGHTTP2_NO_ERROR;
    return TellEnd(*call, done ? absl::OkStatus() : absl::CancelledError("the call was cancelled"));
  }
  TellEnd(*call, RpcStatusOf(call->code, call->message_text, call->http_status, error));
}

void RpcSession::OnAnswerEnd(CallState& call) {
  absl::Status status =
      RpcStatusOf(call.code, call.message_text, call.http_status, NGHTTP2_NO_ERROR);
  if (status.ok() && call.reader.inside_message()) {
    status = Internal("the last message is not complete");
  }
  TellEnd(call, std::move(status));
  // The server reads no more.
  if (!call.finishing) Reset(call.id, NGHTTP2_NO_ERROR);
}

void RpcSession::TellEnd(CallState& call, absl::Status status) {
  if (std::exchange(call.end_told, true)) return;
  call.held = {};
  events_.push_back(
      {.kind = RpcEvent::Kind::kEnd, .call = call.id, .bytes = {}, .status = std::move(status)});
}

void RpcSession::Fail(CallState& call, const absl::Status& status) {
  TellEnd(call, status);
  if (role_ == RpcRole::kServer) return Finish(call.id, status);
  Reset(call.id, NGHTTP2_CANCEL);
}

// --- output ---

RpcSession::CallId RpcSession::Call(std::string_view authority, std::string_view scheme,
                                    std::string_view path) {
  auto call = std::make_unique<CallState>(limits_);
  const std::array<nghttp2_nv, 7> fields = {
      Field(":method", "POST"),       Field(":scheme", scheme),
      Field(":path", path),           Field(":authority", authority),
      Field("te", "trailers"),        Field("content-type", "application/grpc"),
      Field("user-agent", "lockstep")};
  const nghttp2_data_provider body = {.source = {.ptr = call.get()},
                                      .read_callback = &RpcCallbacks::OnFill};
  const int32_t id =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &body, call.get());
  if (id < 0) return 0;
  call->id = id;
  calls_[id] = std::move(call);
  return id;
}

void RpcSession::Send(CallId id, std::string framed) {
  CallState* const call = Find(id);
  if (call == nullptr || call->finishing) return;
  if (call->output.empty()) {
    call->output = std::move(framed);
  } else {
    // Drops sent bytes, so that they take no memory while the peer reads slowly.
    if (call->num_filled_bytes > call->output.size() / 2) {
      call->output.erase(0, std::exchange(call->num_filled_bytes, 0));
    }
    call->output += framed;
  }
  if (role_ == RpcRole::kServer && !call->answered) SubmitHead(*call);
  nghttp2_session_resume_data(session_, id);
}

void RpcSession::HalfClose(CallId id) {
  CallState* const call = Find(id);
  if (call == nullptr) return;
  call->finishing = true;
  nghttp2_session_resume_data(session_, id);
}

void RpcSession::Finish(CallId id, const absl::Status& status) {
  CallState* const call = Find(id);
  if (call == nullptr || call->finishing) return;
  call->finishing = true;
  call->final_status = status;
  if (!call->answered) return SubmitTrailers(*call, /*alone=*/true);
  nghttp2_session_resume_data(session_, id);
}

void RpcSession::Cancel(CallId id) {
  CallState* const call = Find(id);
  if (call == nullptr) return;
  TellEnd(*call, absl::CancelledError("the call was cancelled"));
  Reset(id, NGHTTP2_CANCEL);
}

void RpcSession::SubmitHead(CallState& call) {
  call.answered = true;
  const std::array<nghttp2_nv, 2> fields = {Field(":status", "200"),
                                            Field("content-type", "application/grpc")};
  const nghttp2_data_provider body = {.source = {.ptr = &call},
                                      .read_callback = &RpcCallbacks::OnFill};
  if (nghttp2_submit_response(session_, call.id, fields.data(), fields.size(), &body) != 0) {
    Reset(call.id, NGHTTP2_INTERNAL_ERROR);
  }
}

void RpcSession::SubmitTrailers(CallState& call, bool alone) {
  const std::string code = fmt::format("{}", static_cast<int>(call.final_status.code()));
  const std::string text = PercentEncoded(Message(call.final_status).substr(0, kMaxTextBytes));
  std::vector<nghttp2_nv> fields;
  if (alone) fields = {Field(":status", "200"), Field("content-type", "application/grpc")};
  fields.push_back(Field("grpc-status", code));
  if (!text.empty()) fields.push_back(Field("grpc-message", text));
  call.answered = true;
  const int error =
      alone ? nghttp2_submit_response(session_, call.id, fields.data(), fields.size(), nullptr)
            : nghttp2_submit_trailer(session_, call.id, fields.data(), fields.size());
  if (error != 0) Reset(call.id, NGHTTP2_INTERNAL_ERROR);
}

ptrdiff_t RpcSession::Fill(CallState& call, uint8_t* room, size_t max_bytes, uint32_t* flags) {
  const size_t num_bytes = std::min(max_bytes, call.output.size() - call.num_filled_bytes);
  if (num_bytes == 0 && !call.finishing) return NGHTTP2_ERR_DEFERRED;
  std::memcpy(room, call.output.data() + call.num_filled_bytes, num_bytes);
  call.num_filled_bytes += num_bytes;
  if (call.num_filled_bytes < call.output.size()) return static_cast<ptrdiff_t>(num_bytes);
  call.output = {};
  call.num_filled_bytes = 0;
  if (!call.finishing) return static_cast<ptrdiff_t>(num_bytes);
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (role_ == RpcRole::kServer) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(call, /*alone=*/false);
  }
  return static_cast<ptrdiff_t>(num_bytes);
}

void RpcSession::Reset(CallId call, uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, call, error);
}

void RpcSession::Pull(size_t max_bytes, std::string& out) {
  while (out.size() < max_bytes) {
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) Violate("frames cannot be made");
    if (size <= 0) return;
    out.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  }
}

void RpcSession::Ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

void RpcSession::GoAway() {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

void RpcSession::EndAll(const absl::Status& status) {
  for (const auto& [id, call] : calls_) TellEnd(*call, status);
}

size_t RpcSession::num_output_bytes() const {
  size_t num_bytes = 0;
  for (const auto& [id, call] : calls_) num_bytes += call->output.size() - call->num_filled_bytes;
  return num_bytes;
}

bool RpcSession::over() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

}  // namespace lockstep
