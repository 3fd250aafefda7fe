// The bytes of a hostile peer -> either end of a connection of gRPC. The first byte says which end
// it is, and how large the pieces are that the bytes come in. Whatever comes, a call begins once,
// ends once, and nothing comes of it after its end; what is sent are whole frames.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/check.h"
#include "common/net/http2_frames.h"
#include "common/rpc/rpc_session.h"

namespace lockstep {
namespace {

constexpr size_t kMaxMessageBytes = 1000;
constexpr uint32_t kWindowBytes = 2000;

class Peer {
 public:
  explicit Peer(RpcRole role)
      : role_(role),
        session_(role, {.call_window_bytes = kWindowBytes, .max_message_bytes = kMaxMessageBytes}),
        sent_(role == RpcRole::kClient ? Http2FrameReader::kPrefaceBytes : 0) {
    if (role == RpcRole::kServer) return;
    for (int i = 0; i < 2; ++i) {
      const RpcSession::CallId call = session_.Call("x", "http", "/a.B/C");
      session_.Send(call, std::string("\0\0\0\0\1x", 6));
      open_[call] = true;
    }
  }

  bool Take(std::string_view bytes) {
    const bool goes_on = session_.Receive(bytes, now_);
    now_ += std::chrono::milliseconds(1);
    HandleEvents();
    Pull();
    return goes_on;
  }
  void End() {
    session_.EndAll(absl::UnavailableError("the end"));
    HandleEvents();
    for (const auto& [call, open] : open_) LOCKSTEP_CHECK(!open, "a call was not ended");
  }

 private:
  void HandleEvents() {
    for (const RpcEvent& event : session_.TakeEvents()) {
      const bool begins = event.kind == RpcEvent::Kind::kCall;
      if (begins) {
        LOCKSTEP_CHECK(role_ == RpcRole::kServer && open_.emplace(event.call, true).second,
                       "a call begins twice");
        continue;
      }
      const auto found = open_.find(event.call);
      // What is no gRPC ends before it began.
      if (found == open_.end() && event.kind == RpcEvent::Kind::kEnd) continue;
      LOCKSTEP_CHECK(found != open_.end() && found->second, "something comes after the end");
      if (event.kind == RpcEvent::Kind::kEnd) found->second = false;
      if (event.kind == RpcEvent::Kind::kMessage) Answer(event);
      if (event.kind == RpcEvent::Kind::kHalfClose) {
        session_.Finish(event.call, absl::InvalidArgumentError("\n%"));
      }
    }
  }
  void Answer(const RpcEvent& event) {
    LOCKSTEP_CHECK(event.bytes.size() <= kMaxMessageBytes, "a message is too large");
    if (role_ == RpcRole::kServer) session_.Send(event.call, std::string(5, '\0'));
    if (event.bytes.starts_with('c')) return session_.Cancel(event.call);
    session_.Allow(event.call, 1, kMaxMessageBytes);
  }
  void Pull() {
    std::string out;
    session_.Pull(1 << 20, out);
    sent_.Read(out, [](const Http2Frame& frame) {
      LOCKSTEP_CHECK(frame.num_bytes <= 16384, "a frame of {} bytes is sent", frame.num_bytes);
      return static_cast<const char*>(nullptr);
    });
    LOCKSTEP_CHECK(!sent_.inside_frame(), "a frame is cut");
  }

  const RpcRole role_;
  RpcSession session_;
  Http2FrameReader sent_;
  RpcSession::Time now_{std::chrono::seconds(1000)};
  std::map<RpcSession::CallId, bool> open_;  // false: it has ended
};

void Feed(std::string_view input) {
  const auto choice = static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  Peer peer(choice % 2 == 0 ? RpcRole::kServer : RpcRole::kClient);
  const size_t piece_bytes = choice / 2 == 0 ? input.size() : choice / 2;
  while (!input.empty() && peer.Take(input.substr(0, piece_bytes))) {
    input.remove_prefix(std::min(piece_bytes, input.size()));
  }
  peer.End();
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) lockstep::Feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
