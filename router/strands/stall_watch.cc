#include "router/strands/stall_watch.h"

#include <atomic>
#include <utility>

namespace lockstep::router {

class StallWatch::Pulse final : public Strand {
 public:
  void RunStrand() override { is_taken_.store(true, std::memory_order_relaxed); }
  bool urgent() const override { return true; }

  bool is_taken() const { return is_taken_.load(std::memory_order_relaxed); }
  void Reset() { is_taken_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> is_taken_ = true;
};

StallWatch::StallWatch(absl::Duration limit) : limit_(limit) {}
StallWatch::~StallWatch() = default;

void StallWatch::Watch(std::string name, std::shared_ptr<StrandRunner> runner) {
  watched_.push_back({.name = std::move(name),
                      .runner = std::move(runner),
                      .pulse = std::make_shared<Pulse>(),
                      .sent = Instant()});
}

std::string StallWatch::Look(Instant now) {
  std::string stalled;
  for (Watched& watched : watched_) {
    if (watched.pulse->is_taken()) {
      watched.pulse->Reset();
      watched.sent = now;
      watched.runner->Schedule(watched.pulse);
    } else if (now - watched.sent >= limit_) {
      stalled += (stalled.empty() ? "" : ", ") + watched.name;
    }
  }
  return stalled;
}

}  // namespace lockstep::router
