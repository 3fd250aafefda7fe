#include "cli/bench/load/load.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::cli {
namespace {

constexpr double kProgressInterval = 0.25;

double ProcessCpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One load. Requests end on threads of the transport.
class Load {
 public:
  Load(Transport& transport, const LoadClock& clock, const LoadPlan& plan)
      : transport_(transport), clock_(clock), plan_(plan), begin_(clock.Now()) {}

  LoadResult Run(const std::function<bool(const LoadProgress&)>& on_progress) {
    const double cpu_before = ProcessCpuSeconds();
    const std::vector<double> threads_before = transport_.ThreadSeconds();
    for (uint32_t i = 0; i < plan_.streams; ++i) SendNext();
    if (plan_.arrival) SendArrivals(on_progress);
    WaitForEnd(on_progress);
    LoadResult result;
    const double end = Elapsed();
    result.cost = {.cpu_seconds = ProcessCpuSeconds() - cpu_before,
                   .wall_seconds = end,
                   .busiest_thread_share = BusiestShare(threads_before, end)};
    MutexLock lock(mutex_);
    result.records = std::move(records_);
    result.interrupted = stopped_;
    result.window = {.begin = plan_.warm_up_seconds,
                     .end = std::min(end, plan_.warm_up_seconds + plan_.max_seconds)};
    return result;
  }

 private:
  double Elapsed() const { return clock_.Now() - begin_; }
  double SendingEnd() const { return plan_.warm_up_seconds + plan_.max_seconds; }

  // Sends the next request of a closed loop, if there is one.
  void SendNext() {
    const double now = Elapsed();
    std::optional<BenchRequest> request;
    {
      MutexLock lock(mutex_);
      if (stopped_ || num_sent_ >= plan_.max_requests || now >= SendingEnd()) return;
      request = plan_.request(num_sent_++);
    }
    Send(*std::move(request), now);
  }

  void SendArrivals(const std::function<bool(const LoadProgress&)>& on_progress) {
    for (uint64_t i = 0; i < plan_.max_requests; ++i) {
      const std::optional<double> due = plan_.arrival(i);
      if (!due.has_value() || *due >= SendingEnd()) return;
      if (!WaitUntil(*due, on_progress)) return;
      BenchRequest request = plan_.request(i);
      {
        MutexLock lock(mutex_);
        ++num_sent_;
      }
      Send(std::move(request), *due);
    }
  }

  void Send(BenchRequest request, double scheduled) {
    transport_.Send(std::move(request), scheduled, [this](RequestRecord record) {
      // The transport's clock began earlier.
      for (double& at : record.pieces) at -= begin_;
      record.sent -= begin_;
      record.end -= begin_;
      {
        MutexLock lock(mutex_);
        record.cut_off = stopped_ && !record.error.empty();
        progress_.failed += record.error.empty() || record.cut_off ? 0 : 1;
        progress_.output_tokens += record.output_tokens;
        records_.push_back(std::move(record));
      }
      if (plan_.streams > 0) SendNext();
      MutexLock lock(mutex_);
      ++num_ended_;
      changed_.NotifyAll();
    });
  }

  // False when the load was stopped.
  bool WaitUntil(double due, const std::function<bool(const LoadProgress&)>& on_progress) {
    for (;;) {
      const double left = due - Elapsed();
      if (!Report(on_progress)) return false;
      if (left <= 0) return true;
      MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(
                                   static_cast<int64_t>(std::min(left, kProgressInterval) * 1e9)));
    }
  }

  void WaitForEnd(const std::function<bool(const LoadProgress&)>& on_progress) {
    for (;;) {
      Report(on_progress);
      MutexLock lock(mutex_);
      if (num_ended_ == num_sent_) return;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(250));
    }
  }

  bool Report(const std::function<bool(const LoadProgress&)>& on_progress) {
    LoadProgress progress;
    {
      MutexLock lock(mutex_);
      if (stopped_) return false;
      const double now = Elapsed();
      if (now < next_report_) return true;
      next_report_ = now + kProgressInterval;
      progress = progress_;
      progress.seconds = now;
      progress.sent = num_sent_;
      progress.ended = num_ended_;
    }
    if (on_progress(progress)) return true;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    transport_.Abandon();
    return false;
  }

  double BusiestShare(const std::vector<double>& before, double wall) const {
    const std::vector<double> after = transport_.ThreadSeconds();
    double busiest = 0.0;
    for (size_t i = 0; i < before.size() && i < after.size(); ++i) {
      busiest = std::max(busiest, (after[i] - before[i]) / wall);
    }
    return busiest;
  }

  Transport& transport_;
  const LoadClock& clock_;
  const LoadPlan& plan_;
  const double begin_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t num_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  double next_report_ ABSL_GUARDED_BY(mutex_) = 0.0;
  LoadProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

LoadResult RunLoad(Transport& transport, const LoadClock& clock, const LoadPlan& plan,
                   const std::function<bool(const LoadProgress&)>& on_progress) {
  return Load(transport, clock, plan).Run(on_progress);
}

}  // namespace lockstep::cli
