#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/runtime/mutex.h"
#include "router/workers/link/grpc_step_link.h"
#include "tests/router/workers/link/fake_lease_worker.h"

namespace lockstep::router {

// Keeps what the link says until the test asks.
class Events final : public LinkEventSink {
 public:
  void OnLinkEvent(LinkEvent event) override {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.NotifyAll();
  }
  // Passes over others; null when none of that kind came. LinkEvent: of any kind.
  template <typename Kind>
  std::unique_ptr<Kind> Next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    for (;;) {
      while (!events_.empty()) {
        LinkEvent event = std::move(events_.front());
        events_.pop_front();
        if constexpr (std::is_same_v<Kind, LinkEvent>) {
          return std::make_unique<LinkEvent>(std::move(event));
        } else if (auto* const found = std::get_if<Kind>(&event)) {
          return std::make_unique<Kind>(std::move(*found));
        }
      }
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) return nullptr;
      changed_.WaitFor(mutex_, left);
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<LinkEvent> events_ ABSL_GUARDED_BY(mutex_);
};

inline WorkerClientConfig Config(const FakeWorker& worker) {
  WorkerClientConfig config;
  config.address = worker.address();
  config.min_backoff = absl::Milliseconds(1);
  config.max_backoff = absl::Milliseconds(5);
  return config;
}

class GrpcStepLinkTest : public ::testing::Test {
 protected:
  GrpcLoops loops_{1};  // outlives the links
};

}  // namespace lockstep::router
