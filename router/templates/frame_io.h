#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <string>
#include <string_view>

// Frames (renderer_frames.h) over a stream socket.
namespace lockstep::router {

enum class FrameEnd {
  kDone,
  kClosed,   // the other side is gone
  kOverdue,  // patience ran out
  kTooLong,  // the other side announced more than it may send
};

// Called before every wait. Returns how long to wait, in milliseconds. 0: give up. -1: no limit.
using Patience = absl::FunctionRef<int()>;

// Both return kOverdue if patience runs out. Part of the frame may be transferred by then, so the
// socket is unusable afterwards. Neither raises SIGPIPE.
FrameEnd SendFrame(int socket, std::string_view frame, Patience patience);
FrameEnd ReceivePayload(int socket, size_t max_bytes, std::string& payload, Patience patience);

}  // namespace lockstep::router
