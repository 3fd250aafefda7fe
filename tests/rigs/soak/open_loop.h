#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// A client that asks at the times of a Poisson process, however slow the answers are. Prompts are
// random, answers have a fixed length and a deadline.
class OpenLoop {
 public:
  struct Options {
    std::string address;  // the router's
    uint32_t num_prompt_tokens = 16;
    uint32_t num_output_tokens = 32;
    absl::Duration deadline = absl::Seconds(5);
    uint64_t seed = 1;
  };
  explicit OpenLoop(const Options& options);
  ~OpenLoop();  // no call is open

  // Offers the load for `warm_up` and `duration`, and waits for the last answer. Counts requests of
  // `duration`, and as goodput what was complete within it.
  LoadReport Run(double requests_per_second, absl::Duration warm_up, absl::Duration duration);

 private:
  class Call;

  void Ask(bool counted);
  void OnCallDone(const Call& call);

  const Options options_;
  const std::unique_ptr<lockstep::v1::Generation::Stub> stub_;
  std::mt19937_64 random_;  // of the thread that runs

  Mutex mutex_;
  CondVar call_done_;
  uint64_t num_open_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_good_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point window_start_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point window_end_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> refusal_ms_ ABSL_GUARDED_BY(mutex_);
  LoadReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::bench
