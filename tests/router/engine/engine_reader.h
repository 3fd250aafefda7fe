#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/runtime/mutex.h"
#include "router/core/messages/request.h"
#include "router/mailboxes/outbox.h"

namespace lockstep::router::testing {

// Collects what a request's outbox says, on whatever thread waits for it.
class Reader : public std::enable_shared_from_this<Reader> {
 public:
  // Keeps the reader alive: the loop may tell of an end that was read already.
  std::function<void()> OnReady() {
    return [self = shared_from_this()] {
      ++self->num_calls;
      MutexLock lock(self->mutex_);
      self->ready_ = true;
      self->changed_.NotifyAll();
    };
  }

  // Takes until `enough` says so or the request ends.
  template <typename Enough>
  void ReadUntil(Outbox& outbox, Enough enough) {
    while (!end.has_value() && !enough()) {
      {
        MutexLock lock(mutex_);
        while (!ready_) changed_.Wait(mutex_);
        ready_ = false;
      }
      RequestOutput output = outbox.Take();
      for (SampleOutput& sample : output.samples) {
        tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
        if (sample.end.has_value()) sample_end = sample.end;
      }
      if (output.end.has_value()) end = output.end;
    }
  }
  void ReadAll(Outbox& outbox) {
    ReadUntil(outbox, [] { return false; });
  }

  std::vector<TokenId> tokens;
  std::optional<SampleEnd> sample_end;
  std::optional<absl::Status> end;
  // Needs no lock: only the owner of the request calls this object. ThreadSanitizer checks it.
  uint64_t num_calls = 0;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
};

struct Running {
  std::shared_ptr<const Request> request;
  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<Reader> reader = std::make_shared<Reader>();
};

}  // namespace lockstep::router::testing
