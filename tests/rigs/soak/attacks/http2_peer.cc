#include "tests/rigs/soak/attacks/http2_peer.h"

#include <chrono>
#include <utility>

namespace lockstep::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeaderBytes = 9;
constexpr milliseconds kSendPatience(500);
constexpr size_t kReadBytes = 64 << 10;
constexpr uint32_t kInitialWindowSize = 4;  // of SETTINGS
constexpr uint8_t kLiteralField = 0x00;     // not indexed, with a new name

void AppendBigEndian(uint64_t value, int num_bytes, std::string& out) {
  for (int i = num_bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// RFC 7541, 5.1, with a prefix of seven bits: the length of a string that is not compressed.
void AppendLength(uint64_t length, std::string& out) {
  constexpr uint64_t kPrefix = 127;
  if (length < kPrefix) {
    out += static_cast<char>(length);
    return;
  }
  out += static_cast<char>(kPrefix);
  for (length -= kPrefix; length >= 128; length >>= 7) {
    out += static_cast<char>(length % 128 + 128);
  }
  out += static_cast<char>(length);
}

}  // namespace

std::string MakeFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  AppendBigEndian(payload.size(), 3, frame);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  AppendBigEndian(stream, 4, frame);
  frame += payload;
  return frame;
}

std::string HeaderFieldOfSize(std::string_view name, uint64_t num_value_bytes) {
  std::string field(1, static_cast<char>(kLiteralField));
  AppendLength(name.size(), field);
  field += name;
  AppendLength(num_value_bytes, field);
  return field;
}

std::string HeaderField(std::string_view name, std::string_view value) {
  return HeaderFieldOfSize(name, value.size()) + std::string(value);
}

std::string GrpcHeaderBlock(std::string_view path, std::string_view key) {
  constexpr std::string_view kPostOverHttp = "\x83\x86";  // of the static table
  std::string block(kPostOverHttp);
  block += HeaderField(":path", path);
  block += HeaderField(":authority", "router");
  block += HeaderField("content-type", "application/grpc");
  block += HeaderField("te", "trailers");
  if (!key.empty()) block += HeaderField("authorization", "Bearer " + std::string(key));
  return block;
}

std::string GrpcPrefix(uint32_t num_bytes, bool compressed) {
  std::string prefix(1, compressed ? '\1' : '\0');
  AppendBigEndian(num_bytes, 4, prefix);
  return prefix;
}

std::string GrpcMessage(std::string_view bytes) {
  return GrpcPrefix(static_cast<uint32_t>(bytes.size())) + std::string(bytes);
}

Http2Peer::Http2Peer(const std::string& address, std::optional<uint32_t> stream_window)
    : connection_(address) {
  std::string settings;
  if (stream_window.has_value()) {
    AppendBigEndian(kInitialWindowSize, 2, settings);
    AppendBigEndian(*stream_window, 4, settings);
  }
  Send(std::string(kPreface) + MakeFrame(FrameType::kSettings, 0, 0, settings));
}

size_t Http2Peer::Send(std::string_view bytes) { return connection_.Send(bytes, kSendPatience); }

uint32_t Http2Peer::NextStream() { return std::exchange(next_stream_, next_stream_ + 2); }

uint32_t Http2Peer::Call(std::string_view path, std::string_view key) {
  const uint32_t stream = NextStream();
  SendFrame(FrameType::kHeaders, kEndHeaders, stream, GrpcHeaderBlock(path, key));
  return stream;
}

void Http2Peer::Listen(AttackTally& tally, bool answering) {
  if (!open()) return;
  answering_ = answering;
  for (;;) {
    const std::string bytes = connection_.Read(kReadBytes, milliseconds(0));
    if (bytes.empty()) break;
    received_ += bytes;
    size_t at = 0;
    while (received_.size() - at >= kFrameHeaderBytes) {
      const auto byte = [&](size_t i) {
        return static_cast<uint32_t>(static_cast<unsigned char>(received_[at + i]));
      };
      const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (received_.size() - at < kFrameHeaderBytes + size) break;
      const uint32_t stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      OnFrame(static_cast<FrameType>(byte(3)), static_cast<uint8_t>(byte(4)), stream,
              std::string_view(received_).substr(at + kFrameHeaderBytes, size), tally);
      at += kFrameHeaderBytes + size;
    }
    received_.erase(0, at);
  }
  if (!open()) ++tally.num_cut_off;
}

void Http2Peer::OnFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload,
                        AttackTally& tally) {
  const bool ends = (flags & kEndStream) != 0;
  if (type == FrameType::kHeaders && !ends) {
    ++tally.num_answered;
    answered_.insert(stream);
  } else if (type == FrameType::kHeaders && answered_.erase(stream) == 0) {
    ++tally.num_refused;  // a status and nothing else
  } else if (type == FrameType::kReset) {
    answered_.erase(stream);
  } else if (!answering_ || (flags & kAck) != 0) {
    return;
  } else if (type == FrameType::kPing) {
    SendFrame(FrameType::kPing, kAck, 0, payload);
  } else if (type == FrameType::kSettings) {
    SendFrame(FrameType::kSettings, kAck, 0, "");
  }
}

}  // namespace lockstep::bench
