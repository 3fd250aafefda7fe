#include "tests/rigs/soak/idle_soak.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/runtime/descriptor_limit.h"
#include "common/status.h"
#include "lockstep/v1/generation.pb.h"
#include "router/grpc/standard_services.h"
#include "tests/rigs/instant_worker/instant_worker.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/attacks/http2_peer.h"
#include "tests/rigs/soak/attacks/raw_connection.h"
#include "tests/rigs/soak/fleet.h"
#include "tests/rigs/soak/router_probe.h"

namespace lockstep::bench {
namespace {

namespace v1 = lockstep::v1;
using testing::ChildProcess;

constexpr uint32_t kStreamsPerConnection = 100;
constexpr uint32_t kNumPromptTokens = 16;
constexpr uint32_t kNumOutputTokens = 200;  // more than come before the worker is held
constexpr absl::Duration kOpenPatience = absl::Seconds(120);
constexpr std::chrono::milliseconds kAnswerPatience(10'000);
// Slow enough that no stream ends while the others are opened.
constexpr std::chrono::seconds kIdleStepTime(1);

struct Idleness {
  std::string_view name;
  uint32_t max_count;  // that the router allows an address
  // Opens `count` of the kind, and returns once the router has all of them.
  absl::Status (*open)(const ChildProcess& router, uint32_t count, std::vector<Http2Peer>& peers,
                       std::vector<RawConnection>& connections);
};

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  for (uint32_t id = 1; id <= kNumPromptTokens; ++id) request.mutable_token_ids()->add_ids(id);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(kNumOutputTokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

// Calls of gRPC, so many on each connection, until each has the beginning of its answer.
absl::Status OpenCalls(const ChildProcess& router, std::string_view path,
                       const std::string& message, uint32_t count, std::vector<Http2Peer>& peers) {
  AttackTally tally;
  for (uint32_t opened = 0; opened < count;) {
    Http2Peer& peer = peers.emplace_back(router.grpc_address());
    for (uint32_t i = 0; i < kStreamsPerConnection && opened < count; ++i, ++opened) {
      const uint32_t stream = peer.Call(path, "");
      peer.SendFrame(FrameType::kData, kEndStream, stream, GrpcMessage(message));
    }
  }
  return WaitUntil("every call is answered", kOpenPatience, [&] {
    for (Http2Peer& peer : peers) peer.Listen(tally);
    return tally.num_answered >= count;
  });
}

absl::Status AwaitRunning(const ChildProcess& router, uint32_t count) {
  return WaitUntil("every request runs", kOpenPatience, [&] {
    const absl::StatusOr<RouterGauges> gauges = ReadGauges(router);
    return gauges.ok() && gauges->running_requests == static_cast<double>(count);
  });
}

absl::Status AwaitConnections(const ChildProcess& router, uint32_t count) {
  return WaitUntil("every connection is open", kOpenPatience, [&] {
    const absl::StatusOr<double> open = CountConnections(router);
    return open.ok() && *open == static_cast<double>(count);
  });
}

absl::Status OpenGenerations(const ChildProcess& router, uint32_t count,
                             std::vector<Http2Peer>& peers, std::vector<RawConnection>&) {
  LOCKSTEP_RETURN_IF_ERROR(OpenCalls(router, "/lockstep.v1.Generation/Generate",
                                     Request().SerializeAsString(), count, peers));
  return AwaitRunning(router, count);
}

absl::Status OpenWatches(const ChildProcess& router, uint32_t count, std::vector<Http2Peer>& peers,
                         std::vector<RawConnection>&) {
  return OpenCalls(router, "/grpc.health.v1.Health/Watch", "", count, peers);
}

// Each connection is asked for this, and has the beginning of its answer.
absl::Status OpenConnections(const ChildProcess& router, const std::string& request, uint32_t count,
                             std::vector<RawConnection>& connections) {
  for (uint32_t i = 0; i < count; ++i) {
    RawConnection& connection = connections.emplace_back(router.http_address());
    connection.Send(request, kAnswerPatience);
  }
  for (RawConnection& connection : connections) {
    if (!connection.Read(4096, kAnswerPatience).starts_with("HTTP/1.1 200")) {
      return Internal("a connection was not answered");
    }
  }
  return AwaitConnections(router, count);
}

absl::Status OpenIdleConnections(const ChildProcess& router, uint32_t count,
                                 std::vector<Http2Peer>&, std::vector<RawConnection>& connections) {
  return OpenConnections(router, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", count,
                         connections);
}

absl::Status OpenEventStreams(const ChildProcess& router, uint32_t count, std::vector<Http2Peer>&,
                              std::vector<RawConnection>& connections) {
  const std::string body =
      fmt::format(R"({{"prompt": [1, 2, 3, 4, 5, 6, 7, 8], "max_tokens": {}, "stream": true, )"
                  R"("ignore_eos": true}})",
                  kNumOutputTokens);
  LOCKSTEP_RETURN_IF_ERROR(OpenConnections(
      router,
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body),
      count, connections));
  return AwaitRunning(router, count);
}

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
constexpr Idleness kKinds[] = {
    {"grpc-streams", kUnbounded, &OpenGenerations},
    {"health-watches", router::StandardServices::kMaxWatchersOfAddress, &OpenWatches},
    {"http-connections", kUnbounded, &OpenIdleConnections},
    {"event-streams", kUnbounded, &OpenEventStreams},
};

absl::StatusOr<IdleReport> Measure(const SoakOptions& options, const Idleness& kind) {
  const uint32_t count = std::min(options.num_idle, kind.max_count);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<InstantWorker> worker,
                            InstantWorker::Start(options.model, count));
  worker->runner().SetStepTime(kIdleStepTime);
  std::vector<std::string> flags = {"--http_listen=127.0.0.1:0", "--step_timeout=10m",
                                    // Otherwise slow steps would take few prompts at a time.
                                    "--target_step_time=inf", "--max_connections_per_address=0",
                                    fmt::format("--max_connections={}", count + 64),
                                    fmt::format("--max_open_requests={}", 2 * count),
                                    fmt::format("--max_waiting_requests={}", 2 * count),
                                    fmt::format("--max_running_sequences={}", count)};
  flags.insert(flags.end(), options.router_flags.begin(), options.router_flags.end());
  LOCKSTEP_ASSIGN_OR_RETURN(const ChildProcess router,
                            LaunchRouter(options, worker->address(), 1, flags));
  std::vector<Http2Peer> peers;
  std::vector<RawConnection> connections;
  IdleReport report;
  report.name = std::string(kind.name);
  report.count = count;
  report.start_rss_kib = router.ResidentKib();
  LOCKSTEP_RETURN_IF_ERROR(
      Annotate(kind.open(router, count, peers, connections), std::string(kind.name)));
  worker->runner().Hold();
  report.end_rss_kib = router.ResidentKib();
  return report;
}

}  // namespace

absl::StatusOr<SoakReport> RunIdle(const SoakOptions& options) {
  const uint64_t num_descriptors = RaiseDescriptorLimit();
  // The worker, and whatever else this process has open.
  constexpr uint64_t kOthers = 128;
  if (num_descriptors < options.num_idle + kOthers) {
    return InvalidArgument("idle: {} connections need more than the {} descriptors of this process",
                           options.num_idle, num_descriptors);
  }
  SoakReport report;
  for (const Idleness& kind : kKinds) {
    LOCKSTEP_ASSIGN_OR_RETURN(IdleReport one, Measure(options, kind));
    report.idle.push_back(std::move(one));
  }
  return report;
}

}  // namespace lockstep::bench
