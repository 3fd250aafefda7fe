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

// How many milliseconds to go on waiting, asked before every wait; 0: no longer, -1: for ever.
using Patience = absl::FunctionRef<int()>;

// Calls return with kOverdue when patience has run out, whatever was transferred by then: the
// socket is of no use afterwards. Neither raises SIGPIPE.
FrameEnd SendFrame(int socket, std::string_view frame, Patience patience);
FrameEnd ReceivePayload(int socket, size_t max_bytes, std::string& payload, Patience patience);

}  // namespace lockstep::router
