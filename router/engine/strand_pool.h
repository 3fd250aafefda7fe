#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "common/named_thread.h"
#include "router/engine/strand.h"

namespace lockstep::router {

// A few named threads that do nothing else; one is woken for every strand. For work that may be
// long.
class StrandPool final : public StrandRunner {
 public:
  // Threads are called "<name>-0", "<name>-1", ...
  StrandPool(std::string_view name, size_t num_threads);
  // Drops queued strands; a running one finishes.
  ~StrandPool() override;

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void RunThread();

  Mutex mutex_;
  CondVar not_empty_;
  std::deque<std::shared_ptr<Strand>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<NamedThread> threads_;
};

}  // namespace lockstep::router
