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

// The server's end of an HTTP/2 connection without its socket: bytes in, bytes out. Streams belong
// to handlers that somebody else makes. What strangers may make it hold or do is bounded by the
// limits and by FrameGuard, which sees every byte before the parser does. One thread at a time;
// handlers must not call back into it.
class Http2Session {
 public:
  using Time = FrameGuard::Time;
  using StreamId = int32_t;
  // Who answers the stream; it signals output by having Wake called.
  using Open = std::function<std::shared_ptr<StreamHandler>(StreamRequest request, StreamId id)>;

  // How long a stream may wait for its client.
  struct StallTimeouts {
    std::chrono::nanoseconds body;   // from the header of a request to its end
    std::chrono::nanoseconds write;  // while output waits, without the client taking any of it
  };

  Http2Session(const Http2Limits& limits, Open open);
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;
  // Closes what is open.
  ~Http2Session();

  // What the client sent. False: the connection is to end, once what Send still has is out.
  bool Receive(std::string_view bytes, Time now);
  // Appends frames to `out` until that has about `max_bytes`, as far as there are any.
  void Send(size_t max_bytes, Time now, std::string& out);
  // The handler of the stream has output; nothing happens when the stream is gone.
  void Wake(StreamId id, Time now);

  void Ping();
  // Asks the client to make new streams on another connection. Streams that are under way are still
  // taken. GoAway follows by itself once the client has answered.
  void AnnounceEnd();
  // No new streams are taken; those that are open go on.
  void GoAway();
  // Resets the streams that waited for their client for longer.
  void EndStalledStreams(const StallTimeouts& timeouts, Time now);

  // Nothing is left to read or to write.
  bool over() const;
  bool violated() const { return violation_ != nullptr; }
  // Why the client's connection is ended; null: it is not.
  const char* violation() const { return violation_; }
  // The connection ends for what the client sent: a violation, or what nghttp2 refuses by itself.
  bool ends_for_an_error() const { return violated() || sent_error_; }
  size_t num_streams() const { return streams_.size(); }
  bool any_request_yet() const { return any_request_; }
  // A header block has begun and is not complete.
  bool in_header_block() const { return guard_.in_header_block(); }
  size_t num_header_block_bytes() const { return guard_.num_header_block_bytes(); }
  uint64_t num_header_blocks() const { return guard_.num_header_blocks(); }
  // A stream waits for its client: EndStalledStreams must be called now and then.
  bool any_waiting() const { return num_open_bodies_ > 0 || num_untaken_outputs_ > 0; }
  // Many frames wait to be sent: the client asks for answers and does not read them.
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
  // Adds the date.
  void SubmitHead(Stream& stream, const HeaderList& head, bool ends);
  void SubmitTrailers(Stream& stream);
  void Reset(StreamId id, uint32_t error);
  // Fills a DATA frame; the number of bytes, or an error of nghttp2.
  ptrdiff_t Fill(Stream& stream, uint8_t* room, size_t max_bytes, uint32_t* flags);
  void TellWritten();
  void GrantHeldBack(Stream& stream);

  const Http2Limits limits_;
  const Open open_;
  FrameGuard guard_;
  nghttp2_session* session_ = nullptr;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  std::vector<StreamId> written_;  // their output has left, their handlers were not told yet
  Time now_;                       // of the call that is being served
  const char* violation_ = nullptr;
  bool sent_error_ = false;  // a GOAWAY with an error
  bool any_request_ = false;
  bool end_announced_ = false;
  bool going_away_ = false;
  size_t num_open_bodies_ = 0;
  size_t num_untaken_outputs_ = 0;
};

}  // namespace lockstep::router
