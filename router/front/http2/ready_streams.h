#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "router/front/connection/output_signal.h"

namespace lockstep::router {

// The streams of an HTTP/2 connection that have output. Handlers add to it from any thread. The
// connection takes from it on its strand. Handlers may keep it longer than the connection lives.
class ReadyStreams {
 public:
  using StreamId = int32_t;

  // `wake` makes the connection call Take soon. Any thread may call it until Detach returns.
  explicit ReadyStreams(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The stream has output.
  void Add(StreamId id) {
    MutexLock lock(mutex_);
    if (wake_ == nullptr) return;
    ready_.push_back(id);
    if (!std::exchange(expected_, true)) wake_();
  }
  // The connection will call Take, so Add need not wake it.
  void Expect() {
    MutexLock lock(mutex_);
    expected_ = true;
  }
  // False if no stream has output. Add then wakes the connection again.
  bool Take(std::vector<StreamId>& ready) {
    ready.clear();
    MutexLock lock(mutex_);
    ready.swap(ready_);
    expected_ = !ready.empty();
    return expected_;
  }
  // The connection ends.
  void Detach() {
    MutexLock lock(mutex_);
    wake_ = nullptr;
  }

 private:
  Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);  // null: the connection is gone
  std::vector<StreamId> ready_ ABSL_GUARDED_BY(mutex_);
  bool expected_ ABSL_GUARDED_BY(mutex_) = false;
};

// The signal of one stream.
class StreamSignal final : public OutputSignal {
 public:
  StreamSignal(std::shared_ptr<ReadyStreams> ready, ReadyStreams::StreamId id)
      : ready_(std::move(ready)), id_(id) {}
  void OnOutput() override { ready_->Add(id_); }

 private:
  const std::shared_ptr<ReadyStreams> ready_;
  const ReadyStreams::StreamId id_;
};

}  // namespace lockstep::router
