#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/front/connection/http2_limits.h"
#include "router/front/connection/stream_handler.h"
#include "router/front/http2/frame_guard.h"

struct nghttp2_session;

namespace lockstep::router {

// The server's side of an HTTP/2 connection without its socket: bytes in, bytes out. Each stream
// has a handler, made by `open`. Http2Limits and FrameGuard bound what a client can make it hold or
// do; FrameGuard sees every byte before the parser. One thread at a time. Handlers must not call
// back into it.
class Http2Session {
 public:
  using Time = FrameGuard::Time;
  using StreamId = int32_t;
  // Makes the handler of a stream. When the handler signals output, Wake must be called.
  using Open = std::function<std::shared_ptr<StreamHandler>(StreamRequest request, StreamId id)>;

  // How long a stream may wait for its client.
  struct StallTimeouts {
    std::chrono::nanoseconds body;   // from the end of the request's header to the end of its body
    std::chrono::nanoseconds write;  // while output waits and the client takes nothing
  };

  Http2Session(const Http2Limits& limits, Open open);
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;
  // Closes the open streams.
  ~Http2Session();

  // Takes bytes from the client. False: end the connection after sending what Send still returns.
  bool Receive(std::string_view bytes, Time now);
  // Appends frames to `out` until it has about `max_bytes` or there are no more frames.
  void Send(size_t max_bytes, Time now, std::string& out);
  // The stream's handler has output. Does nothing if the stream is gone.
  void Wake(StreamId id, Time now);

  void Ping();
  // Asks the client to open new streams on another connection. Streams already on their way are
  // still served. GoAway follows once the client has answered.
  void AnnounceEnd();
  // Refuses new streams. Open streams continue.
  void GoAway();
  // Resets the streams that have waited for their client too long.
  void EndStalledStreams(const StallTimeouts& timeouts, Time now);

  // True if nothing is left to read or write.
  bool over() const;
  bool violated() const { return violation_ != nullptr; }
  // Why the connection must end; null if it need not.
  const char* violation() const { return violation_; }
  // True if the client caused the end: by a violation, or by something that nghttp2 refuses.
  bool ends_for_an_error() const { return violated() || sent_error_; }
  size_t num_streams() const { return streams_.size(); }
  bool any_request_yet() const { return any_request_; }
  // True if a header block has begun and is not complete.
  bool in_header_block() const { return guard_.in_header_block(); }
  size_t num_header_block_bytes() const { return guard_.num_header_block_bytes(); }
  uint64_t num_header_blocks() const { return guard_.num_header_blocks(); }
  // True if a stream waits for its client. EndStalledStreams must then be called regularly.
  bool any_waiting() const { return num_open_bodies_ > 0 || num_untaken_outputs_ > 0; }
  // True if many frames wait to be sent: the client asks for answers and does not read them.
  bool backed_up() const;

 private:
  struct Stream;
  friend struct Http2Callbacks;

  void Violate(const char* reason);
  void OpenStreamOf(Stream& stream, bool ends);
  void RefuseHeader(Stream& stream);
  void EndBody(Stream& stream);
  void CloseStream(StreamId id);
  void TakeOutput(Stream& stream);
  void SubmitContinue(const Stream& stream);
  // Adds a Date field.
  void SubmitHead(Stream& stream, const HeaderList& head, bool ends);
  void SubmitTrailers(Stream& stream);
  void Reset(StreamId id, uint32_t error);
  // Fills a DATA frame. Returns the number of bytes, or an nghttp2 error.
  ptrdiff_t Fill(Stream& stream, uint8_t* room, size_t max_bytes, uint32_t* flags);
  void TellWritten();
  void GrantHeldBack(Stream& stream);

  const Http2Limits limits_;
  const Open open_;
  FrameGuard guard_;
  nghttp2_session* session_ = nullptr;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  std::vector<StreamId> written_;  // output was sent, OnWritten not called yet
  Time now_;                       // of the current call
  const char* violation_ = nullptr;
  bool sent_error_ = false;  // a GOAWAY with an error
  bool any_request_ = false;
  bool end_announced_ = false;
  bool going_away_ = false;
  size_t num_open_bodies_ = 0;
  size_t num_untaken_outputs_ = 0;
};

}  // namespace lockstep::router
