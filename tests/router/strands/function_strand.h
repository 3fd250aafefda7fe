#pragma once

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <utility>

#include "router/strands/strand.h"

namespace lockstep::router::testing {

class FunctionStrand final : public Strand {
 public:
  explicit FunctionStrand(std::function<void()> run, bool urgent = false)
      : run_(std::move(run)), urgent_(urgent) {}
  void RunStrand() override { run_(); }
  bool urgent() const override { return urgent_; }

 private:
  const std::function<void()> run_;
  const bool urgent_;
};

// One that only waits.
inline std::shared_ptr<Strand> IdleStrand(bool urgent = false) {
  return std::make_shared<FunctionStrand>([] {}, urgent);
}

// Returns once a run of the strand has seen what was there before the last Schedule; hangs where
// one is lost.
inline void AwaitARunAfterEverySchedule(StrandRunner& runner) {
  struct State {
    std::atomic<int> posted = 0;
    int seen = 0;  // the strand's alone
    std::latch done{1};
  };
  const auto state = std::make_shared<State>();
  const auto strand = std::make_shared<FunctionStrand>([state] {
    const int now = state->posted.load();
    if (now == 10'000 && state->seen != now) state->done.count_down();
    state->seen = now;
  });
  for (int i = 0; i < 10'000; ++i) {
    state->posted.fetch_add(1);
    runner.Schedule(strand);
  }
  state->done.wait();
}

}  // namespace lockstep::router::testing
