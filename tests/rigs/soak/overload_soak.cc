#include "tests/rigs/soak/overload_soak.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stop_token>
#include <utility>

#include "common/runtime/named_thread.h"
#include "common/status.h"
#include "tests/rigs/instant_worker/instant_worker.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/fleet.h"
#include "tests/rigs/soak/open_loop.h"
#include "tests/rigs/soak/router_probe.h"

namespace lockstep::bench {
namespace {

using testing::ChildProcess;

// Its clients wait 5 s at most; so much of the queue is 2.6 s of work.
constexpr uint32_t kMaxWaitingRequests = 64;
constexpr uint32_t kMaxSlots = 16;
constexpr std::chrono::milliseconds kStepTime(20);

// Requests per second that keep every slot busy: a request takes one step for its prompt and first
// token and one for each other token.
double Capacity(uint32_t num_output_tokens) {
  const double step_seconds = std::chrono::duration<double>(kStepTime).count();
  return kMaxSlots / (step_seconds * num_output_tokens);
}

// Highest values of the router's queue while it lives.
class QueueWatch {
 public:
  explicit QueueWatch(const ChildProcess& router)
      : thread_("queue-watch", [this, &router](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (const auto gauges = ReadGauges(router); gauges.ok()) {
              peak_requests_ = std::max(peak_requests_, gauges->queue_requests);
              peak_tokens_ = std::max(peak_tokens_, gauges->queue_tokens);
            }
            PaceFor(std::chrono::milliseconds(100));
          }
        }) {}

  void StopInto(LoadReport& report) {
    thread_.request_stop();
    thread_.join();
    report.peak_queue_requests = peak_requests_;
    report.peak_queue_tokens = peak_tokens_;
  }

 private:
  double peak_requests_ = 0;  // the thread's until it has ended
  double peak_tokens_ = 0;
  NamedThread thread_;
};

}  // namespace

absl::StatusOr<SoakReport> RunOverload(const SoakOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<InstantWorker> worker,
                            InstantWorker::Start(options.model, kMaxSlots));
  worker->runner().SetStepTime(kStepTime);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const ChildProcess router,
      LaunchRouter(options, worker->address(), 1,
                   {fmt::format("--max_waiting_requests={}", kMaxWaitingRequests)}));
  const OpenLoop::Options client_options = {.address = router.grpc_address(), .seed = options.seed};
  OpenLoop client(client_options);
  const double capacity = Capacity(client_options.num_output_tokens);
  SoakReport report;
  for (const double load : {0.5, 1.0, 2.0, 10.0}) {
    const absl::Duration duration = load < 10 ? options.duration / 6 : options.duration;
    const absl::Duration warm_up = std::min(duration / 2, absl::Seconds(3));
    QueueWatch watch(router);
    const uint64_t start_rss_kib = router.ResidentKib();
    LoadReport result = client.Run(load * capacity, warm_up, duration);
    watch.StopInto(result);
    result.start_rss_kib = start_rss_kib;
    result.end_rss_kib = router.ResidentKib();
    report.loads.push_back(std::move(result));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(report.leaked, CountLeaks(router));
  return report;
}

}  // namespace lockstep::bench
