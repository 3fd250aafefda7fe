#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Frames over a stream socket, between a process and a caged child. A frame is a length (4 bytes,
// little endian) and that many bytes. The parent sends jobs, and the child (connection.py) answers
// each with one frame: 'K' for a result or 'E' for an error, a length and the text. Answers are not
// trusted.
namespace lockstep {

inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr size_t kMaxCagedErrorBytes = 512;  // the child cuts longer errors

// Builds a whole frame.
class FrameWriter {
 public:
  // `num_bytes`: what the payload will have, about.
  explicit FrameWriter(size_t num_bytes);

  void Byte(char byte) { frame_ += byte; }
  void Flag(bool value) { Byte(value ? '1' : '0'); }
  void Length(size_t length);  // 4 bytes
  void String(std::string_view text);
  // Ends the frame. Its payload must be shorter than 4 GiB.
  std::string Finish();

 private:
  std::string frame_;
};

// A number of 4 bytes at the begin of `bytes`, such as a frame's length.
size_t ReadLength(std::string_view bytes);

// The text of an answer, or nullopt for bytes that are no answer. `failed`: it is an error.
struct CagedAnswer {
  bool failed = false;
  std::string_view text;
};
std::optional<CagedAnswer> ParseCagedAnswer(std::string_view payload);

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

}  // namespace lockstep
