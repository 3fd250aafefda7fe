// Attackers that speak HTTP/2 and gRPC, each in its own wrong way.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/attacks/attackers.h"
#include "tests/rigs/soak/attacks/http2_peer.h"

namespace lockstep::bench {
namespace {

namespace v1 = lockstep::v1;
using std::chrono::milliseconds;

constexpr char kGenerate[] = "/lockstep.v1.Generation/Generate";
constexpr char kTokenize[] = "/lockstep.v1.Generation/Tokenize";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr size_t kFrameBytes = 16 << 10;         // the largest that the router takes
constexpr size_t kStreamWindowBytes = 64 << 10;  // that the router grants a stream at first
// Between two connections, or two bursts of a flood.
constexpr milliseconds kPause(2);

// A header that goes on and on.
void FloodContinuations(const AttackTarget& target, const std::stop_token& stop,
                        AttackTally& tally) {
  constexpr size_t kNumFrames = 4096;  // 64 MiB, if they were taken
  const std::string begin =
      MakeFrame(FrameType::kHeaders, 0, 1, GrpcHeaderBlock(kGenerate, kSecondGreedyKey));
  std::string fields;
  while (fields.size() + 8 < kFrameBytes) fields += HeaderField("a", "bcd");
  const std::string more = MakeFrame(FrameType::kContinuation, 0, 1, fields);
  while (!stop.stop_requested()) {
    Http2Peer peer(target.grpc_address);
    ++tally.num_attempts;
    peer.Send(begin);
    for (size_t i = 0; peer.open() && i < kNumFrames && !stop.stop_requested(); ++i) {
      peer.Send(more);
    }
    peer.Listen(tally);
    PaceFor(kPause);
  }
}

// One field of a header announces 1 GiB; its bytes come one by one, on many connections.
void TrickleHeaderValues(const AttackTarget& target, const std::stop_token& stop,
                         AttackTally& tally) {
  const std::string begin =
      MakeFrame(FrameType::kHeaders, 0, 1,
                GrpcHeaderBlock(kGenerate, kSecondGreedyKey) + HeaderFieldOfSize("x", 1 << 30));
  const std::string more = MakeFrame(FrameType::kContinuation, 0, 1, std::string(1000, 'x'));
  std::vector<Http2Peer> peers(64);
  while (!stop.stop_requested()) {
    for (Http2Peer& peer : peers) {
      if (peer.open()) {
        peer.Send(more);
        peer.Listen(tally, /*answering=*/false);
        continue;
      }
      peer = Http2Peer(target.grpc_address);
      ++tally.num_attempts;
      peer.Send(begin);
    }
    PaceFor(kPause);
  }
}

// As much of a header as is taken, and never its end.
void HoldHeaders(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  std::string begin = MakeFrame(
      FrameType::kHeaders, 0, 1,
      GrpcHeaderBlock(kGenerate, kSecondGreedyKey) + HeaderFieldOfSize("x", size_t{60} << 10));
  for (int i = 0; i < 3; ++i) {
    begin += MakeFrame(FrameType::kContinuation, 0, 1, std::string(kFrameBytes, 'x'));
  }
  std::vector<Http2Peer> peers(512);
  while (!stop.stop_requested()) {
    for (Http2Peer& peer : peers) {
      if (stop.stop_requested()) return;
      if (peer.open()) {
        peer.Listen(tally, /*answering=*/false);
        continue;
      }
      peer = Http2Peer(target.grpc_address);
      ++tally.num_attempts;
      peer.Send(begin);
    }
    PaceFor(milliseconds(50));
  }
}

std::string SmallRequest() {
  v1::GenerateRequest request;
  for (uint32_t id = 1; id <= 8; ++id) request.mutable_token_ids()->add_ids(id);
  request.mutable_stop()->set_max_tokens(100);
  return GrpcMessage(request.SerializeAsString());
}

// Calls that are complete, and taken back at once.
void ResetRapidly(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  constexpr size_t kCallsPerBurst = 50;
  constexpr uint32_t kMaxStream = 100'000;
  constexpr std::string_view kCancelled("\0\0\0\x08", 4);
  const std::string header = GrpcHeaderBlock(kGenerate, kSecondGreedyKey);
  const std::string request = SmallRequest();
  while (!stop.stop_requested()) {
    Http2Peer peer(target.grpc_address);
    uint32_t stream = 0;
    while (peer.open() && stream < kMaxStream && !stop.stop_requested()) {
      std::string burst;
      for (size_t i = 0; i < kCallsPerBurst; ++i) {
        stream = peer.NextStream();
        burst += MakeFrame(FrameType::kHeaders, kEndHeaders, stream, header);
        burst += MakeFrame(FrameType::kData, kEndStream, stream, request);
        burst += MakeFrame(FrameType::kReset, 0, stream, kCancelled);
        ++tally.num_attempts;
      }
      peer.Send(burst);
      peer.Listen(tally);
      PaceFor(kPause);
    }
    PaceFor(kPause);
  }
}

// The same small frame, as fast as it is taken.
void FloodWith(const std::string& frame, const AttackTarget& target, const std::stop_token& stop,
               AttackTally& tally) {
  constexpr size_t kFramesPerBurst = 1000;
  std::string burst;
  for (size_t i = 0; i < kFramesPerBurst; ++i) burst += frame;
  while (!stop.stop_requested()) {
    Http2Peer peer(target.grpc_address);
    while (peer.open() && !stop.stop_requested()) {
      ++tally.num_attempts;
      peer.Send(burst);
      peer.Listen(tally);
    }
    PaceFor(kPause);
  }
}

void FloodSettings(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  FloodWith(MakeFrame(FrameType::kSettings, 0, 0, ""), target, stop, tally);
}

void FloodPings(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  FloodWith(MakeFrame(FrameType::kPing, 0, 0, "12345678"), target, stop, tally);
}

// Calls to Health/Watch, without a key and without an end, as many as are taken and some more.
void WatchForever(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  constexpr size_t kCallsPerRound = 100;
  std::vector<Http2Peer> peers(160);
  while (!stop.stop_requested()) {
    for (Http2Peer& peer : peers) {
      if (stop.stop_requested()) return;
      if (!peer.open()) peer = Http2Peer(target.grpc_address);
      std::string calls;
      for (size_t i = 0; i < kCallsPerRound; ++i) {
        const uint32_t stream = peer.NextStream();
        calls += MakeFrame(FrameType::kHeaders, kEndHeaders, stream, GrpcHeaderBlock(kWatch, ""));
        calls += MakeFrame(FrameType::kData, kEndStream, stream, GrpcMessage(""));
        ++tally.num_attempts;
      }
      peer.Send(calls);
      peer.Listen(tally);
      PaceFor(kPause);
    }
  }
}

// Calls without a key that never come to their message, on many connections.
void OpenStreamsOnly(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  constexpr size_t kCallsPerRound = 100;
  constexpr uint32_t kMaxStream = 2000;
  const std::string header = GrpcHeaderBlock("/grpc.health.v1.Health/Check", "");
  std::vector<Http2Peer> peers(128);
  std::vector<uint32_t> last_stream(peers.size(), 0);
  while (!stop.stop_requested()) {
    for (size_t i = 0; i < peers.size() && !stop.stop_requested(); ++i) {
      if (!peers[i].open()) {
        peers[i] = Http2Peer(target.grpc_address);
        last_stream[i] = 0;
      }
      std::string calls;
      for (size_t n = 0; n < kCallsPerRound && last_stream[i] < kMaxStream; ++n) {
        last_stream[i] = peers[i].NextStream();
        calls += MakeFrame(FrameType::kHeaders, kEndHeaders, last_stream[i], header);
        ++tally.num_attempts;
      }
      peers[i].Send(calls);
      peers[i].Listen(tally);
      PaceFor(kPause);
    }
  }
}

// A call whose data comes in frames. `flags` are those of the last frame.
struct HeldCall {
  const char* path;
  std::string_view data;
  uint8_t flags;
  std::optional<uint32_t> stream_window;
};

// Sends the call again and again, at most so many times on a connection, on connections that stay.
void HoldCalls(const AttackTarget& target, const HeldCall& held, const std::stop_token& stop,
               AttackTally& tally) {
  const auto& [path, data, flags, stream_window] = held;
  constexpr uint32_t kMaxStream = 512;
  const std::string header = GrpcHeaderBlock(path, kSecondGreedyKey);
  std::vector<Http2Peer> peers(16);
  std::vector<uint32_t> last_stream(peers.size(), 0);
  while (!stop.stop_requested()) {
    for (size_t i = 0; i < peers.size() && !stop.stop_requested(); ++i) {
      if (!peers[i].open()) {
        peers[i] = Http2Peer(target.grpc_address, stream_window);
        last_stream[i] = 0;
      }
      if (last_stream[i] < kMaxStream) {
        const uint32_t stream = last_stream[i] = peers[i].NextStream();
        std::string call = MakeFrame(FrameType::kHeaders, kEndHeaders, stream, header);
        for (size_t at = 0; at < data.size(); at += kFrameBytes) {
          const bool last = at + kFrameBytes >= data.size();
          call +=
              MakeFrame(FrameType::kData, last ? flags : 0, stream, data.substr(at, kFrameBytes));
        }
        ++tally.num_attempts;
        peers[i].Send(call);
      }
      peers[i].Listen(tally);
      PaceFor(kPause);
    }
  }
}

// Answers that are large for what was asked, and for which no window is granted.
void LeaveAnswersNoWindow(const AttackTarget& target, const std::stop_token& stop,
                          AttackTally& tally) {
  v1::TokenizeRequest request;
  while (request.text().size() < kStreamWindowBytes - 1024) request.mutable_text()->append("a b ");
  const std::string message = GrpcMessage(request.SerializeAsString());
  HoldCalls(target, {kTokenize, message, kEndStream, 0}, stop, tally);
}

// Messages that announce as much as is taken, of which the stream's first window comes.
void AnnounceLargeMessages(const AttackTarget& target, const std::stop_token& stop,
                           AttackTally& tally) {
  const std::string begun =
      GrpcPrefix(1'000'000) + std::string(kStreamWindowBytes - kFrameBytes, 'x');
  HoldCalls(target, {kGenerate, begun, 0, {}}, stop, tally);
}

// Whatever is no call: prefixes that lie, messages that are none, ends in the middle, compression.
void SendMalformedCalls(const AttackTarget& target, const std::stop_token& stop,
                        AttackTally& tally) {
  constexpr uint32_t kMaxStream = 2000;
  std::mt19937_64 random(20261122);
  const auto draw = [&random](uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(0, most)(random);
  };
  const auto noise = [&](size_t num_bytes) {
    std::string bytes(num_bytes, '\0');
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(draw(255)); });
    return bytes;
  };
  const auto make_body = [&](uint32_t kind) -> std::string {
    switch (kind) {
      case 0:
        return GrpcMessage(noise(draw(4000)));
      case 1:
        return GrpcPrefix(draw(4000)) + noise(draw(2000));
      case 2:
        return GrpcPrefix(16, /*compressed=*/true) + noise(16);
      case 3:
        return GrpcPrefix(UINT32_MAX) + noise(100);
      case 4:
        return GrpcMessage("") + GrpcMessage(noise(10)) + GrpcMessage("");
      default:
        return noise(draw(8));
    }
  };
  while (!stop.stop_requested()) {
    Http2Peer peer(target.grpc_address);
    uint32_t stream = 0;
    while (peer.open() && stream < kMaxStream && !stop.stop_requested()) {
      stream = peer.Call(draw(1) == 0 ? kGenerate : kTokenize, kSecondGreedyKey);
      peer.SendFrame(FrameType::kData, draw(3) == 0 ? 0 : kEndStream, stream, make_body(draw(5)));
      ++tally.num_attempts;
      peer.Listen(tally);
      PaceFor(kPause);
    }
  }
}

constexpr std::array<Attacker, 11> kHttp2Attackers = {{
    {"h2-trickled-header", true, &TrickleHeaderValues},
    {"h2-continuations", true, &FloodContinuations},
    {"h2-held-headers", false, &HoldHeaders},
    {"h2-rapid-reset", false, &ResetRapidly},
    {"h2-settings", false, &FloodSettings},
    {"h2-pings", false, &FloodPings},
    {"h2-watchers", true, &WatchForever},
    {"h2-open-streams", false, &OpenStreamsOnly},
    {"h2-no-window", true, &LeaveAnswersNoWindow},
    {"h2-announced", false, &AnnounceLargeMessages},
    {"h2-malformed", false, &SendMalformedCalls},
}};

}  // namespace

std::span<const Attacker> Http2Attackers() { return kHttp2Attackers; }

}  // namespace lockstep::bench
