#pragma once

#include <absl/status/status.h>
#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/rpc/rpc_message_reader.h"
#include "common/rpc/rpc_session.h"

// The parts of an RpcSession. For its own sources only.
namespace lockstep {

// Limit of a header's decoded fields.
inline constexpr size_t kMaxRpcHeaderListBytes = 64 << 10;

struct RpcSession::CallState {
  explicit CallState(const RpcLimits& limits)
      : window_bytes(limits.call_window_bytes),
        reader(limits.num_messages, limits.max_message_bytes) {}

  CallId id = 0;
  // --- input ---
  std::string path, http_status, code, message_text;  // from header and trailers
  std::string content_type;
  size_t num_header_bytes = 0;
  bool opened = false;        // the header is complete
  bool request_over = false;  // the client has ended its side
  bool half_close_told = false;
  bool end_told = false;
  uint32_t window_bytes;
  RpcMessageReader reader;
  std::string held;  // bytes after the last allowed message; their window is not renewed
  // --- output ---
  bool answered = false;   // a server's head was submitted
  bool finishing = false;  // nothing follows `output`
  absl::Status final_status;
  std::string output;
  size_t num_filled_bytes = 0;  // bytes of `output` that were put into frames
};

// The callbacks of nghttp2.
struct RpcCallbacks {
  static const nghttp2_session_callbacks* Get();
  static const nghttp2_option* Options();

  static int OnBeginHeaders(nghttp2_session* native, const nghttp2_frame* frame, void* user_data);
  static int OnHeader(nghttp2_session* native, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t flags,
                      void* user_data);
  static int OnFrame(nghttp2_session* native, const nghttp2_frame* frame, void* user_data);
  static int OnData(nghttp2_session* native, uint8_t flags, int32_t id, const uint8_t* data,
                    size_t size, void* user_data);
  static int OnSent(nghttp2_session* native, const nghttp2_frame* frame, void* user_data);
  static int OnStreamClose(nghttp2_session* native, int32_t id, uint32_t error, void* user_data);
  static ssize_t OnFill(nghttp2_session* native, int32_t id, uint8_t* room, size_t max_bytes,
                        uint32_t* flags, nghttp2_data_source* source, void* user_data);

 private:
  static RpcSession& Of(void* user_data) { return *static_cast<RpcSession*>(user_data); }
  static RpcSession::CallState* CallOf(nghttp2_session* session, int32_t id) {
    return static_cast<RpcSession::CallState*>(nghttp2_session_get_stream_user_data(session, id));
  }
};

}  // namespace lockstep
