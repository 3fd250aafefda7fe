#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/strands/fair_queue.h"
#include "router/strands/strand.h"

namespace lockstep::router {

// A few named threads that only run strands. One thread is woken for every strand. For work that
// may be long. Owners share the threads fairly (router/strands/fair_queue.h). If there are several
// threads, large strands leave one free, so that a small strand never waits for the end of large
// ones. If there are three or more, one owner's large strands leave another one free, so that the
// first large strand of another owner need not wait for their end either.
class StrandPool final : public StrandRunner {
 public:
  // Threads are called "<name>-0", "<name>-1", ...
  StrandPool(std::string_view name, size_t num_threads);
  // Drops queued strands; a running one finishes.
  ~StrandPool() override;

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void RunThread();
  FairQueue::Large LargeAllowed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without a strand: there is nothing, or nothing that may run now.
  FairQueue::Turn Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_large_running_;
  Mutex mutex_;
  CondVar not_empty_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  size_t num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_large_running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<NamedThread> threads_;
};

}  // namespace lockstep::router
