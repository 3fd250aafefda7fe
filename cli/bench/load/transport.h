#pragma once

#include <absl/functional/any_invocable.h>

#include <chrono>
#include <string>

#include "cli/bench/plan/bench_request.h"
#include "cli/bench/results/request_record.h"
#include "common/sampling_numbers.h"

namespace lockstep::cli {

// The clock of a load: seconds since it began.
class LoadClock {
 public:
  double Now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Sends requests to a server, many at a time.
class Transport {
 public:
  using Done = absl::AnyInvocable<void(RequestRecord)>;

  virtual ~Transport() = default;
  // Returns at once. Calls `done` exactly once, on a thread of the transport; it may send again.
  virtual void Send(BenchRequest request, double scheduled, Done done) = 0;
  // Ends all open requests; their records have an error. For any thread.
  virtual void Abandon() = 0;
  // CPU seconds of each of the transport's own threads so far; empty: unknown.
  virtual std::vector<double> ThreadSeconds() const = 0;
};

// Longest error text in a record. Such texts often come from the server.
inline constexpr size_t kMaxShownErrorBytes = 200;
// Most times in a record. A server that sends more pieces of one answer is at fault.
inline constexpr size_t kMaxPieces = size_t{1} << 22;

struct TransportOptions {
  std::string model = {};    // HTTP: the name in requests
  std::string api_key = {};  // empty: none
  SamplingNumbers sampling = {.temperature = 0.0f};
  bool chat = false;               // HTTP: /v1/chat/completions instead of /v1/completions
  double timeout_seconds = 600.0;  // of a request
  uint32_t num_threads = 2;        // HTTP: that read and write; gRPC: connections
};

}  // namespace lockstep::cli
