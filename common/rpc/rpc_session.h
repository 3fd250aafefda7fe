#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/rpc/frame_limits.h"
#include "common/rpc/rpc_message_reader.h"

struct nghttp2_session;

namespace lockstep {

enum class RpcRole { kClient, kServer };

// What the peer may make a session hold.
struct RpcLimits {
  uint32_t max_calls = 16;  // of a server's connection, open at once
  uint32_t call_window_bytes = 1 << 20;
  uint32_t connection_window_bytes = 2 << 20;
  size_t max_message_bytes = 64 << 10;  // of one message, until Allow changes it
  uint32_t num_messages = 1;            // that a call delivers before the first Allow
  static constexpr uint32_t kAllMessages = RpcMessageReader::kAll;
};

// An event from the peer.
struct RpcEvent {
  enum class Kind {
    kCall,       // server: a call began; `bytes` is its path
    kMessage,    // `bytes` is a message
    kHalfClose,  // server: no message follows
    kEnd,        // the call is over, its last event. `status`: the answer's, or the failure
  };
  Kind kind = Kind::kCall;
  int32_t call = 0;
  std::string bytes;
  absl::Status status;
};

// Puts gRPC's five-byte prefix before a message. `Message` is a protobuf message.
template <typename Message>
std::string FrameMessage(const Message& message) {
  const size_t num_bytes = message.ByteSizeLong();
  std::string framed(5 + num_bytes, '\0');
  for (int i = 0; i < 4; ++i) framed[1 + i] = static_cast<char>(num_bytes >> (24 - 8 * i));
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(framed.data() + 5));
  return framed;
}

// gRPC over HTTP/2 without a socket, for either end of a connection: bytes and calls in, bytes and
// events out. nghttp2 parses HTTP/2, and FrameLimits checks every byte before. A hostile peer can
// make it hold only one header block, and one message and one window for each call. Not safe to use
// from several threads.
class RpcSession {
 public:
  using CallId = int32_t;
  using Time = FrameLimits::Time;

  RpcSession(RpcRole role, const RpcLimits& limits);
  RpcSession(const RpcSession&) = delete;
  RpcSession& operator=(const RpcSession&) = delete;
  ~RpcSession();

  // Takes bytes from the peer. False: end the connection after sending what Pull still returns.
  // violation() says why.
  bool Receive(std::string_view bytes, Time now);
  // Events since the last call.
  std::vector<RpcEvent> TakeEvents() { return std::exchange(events_, {}); }
  bool has_events() const { return !events_.empty(); }
  // Appends frames to `out` until it has about `max_bytes` or there are no more frames.
  void Pull(size_t max_bytes, std::string& out);

  // Opens a client's call. 0 if the connection takes no more calls.
  CallId Call(std::string_view authority, std::string_view scheme, std::string_view path);
  // The methods below do nothing if the call is over.
  // `framed` comes from FrameMessage.
  void Send(CallId call, std::string framed);
  // The client sends no more messages.
  void HalfClose(CallId call);
  // Ends a server's answer with this status, after the messages that were sent.
  void Finish(CallId call, const absl::Status& status);
  // Ends the call at once.
  void Cancel(CallId call);
  // Delivers up to `count` more messages. From now on a message may have `max_bytes`.
  void Allow(CallId call, uint32_t count, size_t max_bytes);
  void WidenWindow(CallId call, uint32_t num_bytes);

  void Ping();
  // The server takes no new calls. Open calls continue.
  void GoAway();
  // The connection is gone: every open call gets its kEnd.
  void EndAll(const absl::Status& status);

  // True if nothing is left to read or write.
  bool over() const;
  const char* violation() const { return violation_; }
  size_t num_calls() const { return calls_.size(); }
  // Bytes of sent messages that Pull has not taken.
  size_t num_output_bytes() const;

 private:
  struct CallState;
  friend struct RpcCallbacks;

  CallState* Find(CallId call);
  void Violate(const char* reason);
  // --- input ---
  void OnField(CallState& call, std::string_view name, std::string_view value);
  void OnHead(CallState& call);
  void OnData(CallState& call, std::string_view data);
  void OnRequestEnd(CallState& call);
  void OnAnswerEnd(CallState& call);
  void TakeMessages(CallState& call, std::string_view& data);
  void TellHalfClose(CallState& call);
  void OnClose(CallId call, uint32_t error);
  // Reports the end, once. A server also sends it as its answer.
  void Fail(CallState& call, const absl::Status& status);
  void TellEnd(CallState& call, absl::Status status);
  // --- output ---
  void SubmitHead(CallState& call);
  void SubmitTrailers(CallState& call, bool alone);
  ptrdiff_t Fill(CallState& call, uint8_t* room, size_t max_bytes, uint32_t* flags);
  void Reset(CallId call, uint32_t error);

  const RpcRole role_;
  const RpcLimits limits_;
  FrameLimits frames_;
  nghttp2_session* session_ = nullptr;
  absl::flat_hash_map<CallId, std::unique_ptr<CallState>> calls_;
  std::vector<RpcEvent> events_;
  const char* violation_ = nullptr;
};

}  // namespace lockstep
