#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "tests/rigs/soak/attacks/attackers.h"
#include "tests/rigs/soak/attacks/raw_connection.h"

namespace lockstep::bench {

// Types and flags of HTTP/2 frames (RFC 9113, 6).
enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
inline constexpr uint8_t kEndStream = 0x1;  // of DATA and HEADERS
inline constexpr uint8_t kAck = 0x1;        // of SETTINGS and PING
inline constexpr uint8_t kEndHeaders = 0x4;

// The bytes of one frame. `payload` is shorter than 2^24.
std::string MakeFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload);

// The header block of a gRPC call; without `key` nobody in particular calls. No Huffman coding and
// no dynamic table (RFC 7541).
std::string GrpcHeaderBlock(std::string_view path, std::string_view key);
// One field, literally.
std::string HeaderField(std::string_view name, std::string_view value);
// The beginning of a field whose value announces more bytes than follow.
std::string HeaderFieldOfSize(std::string_view name, uint64_t num_value_bytes);

// A message of gRPC behind its prefix of five bytes.
std::string GrpcMessage(std::string_view bytes);
// The prefix of a message that announces so many bytes.
std::string GrpcPrefix(uint32_t num_bytes, bool compressed = false);

// An HTTP/2 connection of an attacker. It keeps the protocol only as far as the caller does, and
// answers the pings of the router so that it is kept. One thread at a time.
class Http2Peer {
 public:
  Http2Peer() = default;  // closed
  // Sends the preface and SETTINGS. `stream_window`: how many bytes of an answer the router may
  // send before it is granted more; empty: the protocol's default.
  explicit Http2Peer(const std::string& address, std::optional<uint32_t> stream_window = {});

  bool open() const { return connection_.open(); }
  // How many bytes were taken.
  size_t Send(std::string_view bytes);
  size_t SendFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
    return Send(MakeFrame(type, flags, stream, payload));
  }
  // Ids of the streams that a client may begin, in order.
  uint32_t NextStream();
  // Begins a call; its id.
  uint32_t Call(std::string_view path, std::string_view key);
  // Reads what has come, and counts answers and the end of the connection. Not `answering`: leaves
  // the router's SETTINGS and pings unanswered, as in the middle of a header.
  void Listen(AttackTally& tally, bool answering = true);

 private:
  void OnFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload,
               AttackTally& tally);

  RawConnection connection_;
  uint32_t next_stream_ = 1;
  bool answering_ = true;
  std::string received_;                   // of a frame that is not complete
  std::unordered_set<uint32_t> answered_;  // streams whose answer goes on
};

}  // namespace lockstep::bench
