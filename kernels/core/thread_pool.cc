#include "kernels/core/thread_pool.h"

#include <thread>

#include "common/check.h"
#include "common/runtime/spin.h"

namespace lockstep::kernels {
namespace {

constexpr int kCountShift = 32;
constexpr uint64_t kNextMask = 0xFFFFFFFF;

inline bool HasTask(uint64_t claims) { return (claims & kNextMask) < claims >> kCountShift; }

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  LOCKSTEP_CHECK(num_threads >= 1, "a team of {} threads", num_threads);
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    workers_.emplace_back("kernel", [this] { WorkerLoop(); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  {
    MutexLock lock(mutex_);
    wake_.NotifyAll();
  }
  for (NamedThread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(int num_tasks, ErasedTask task, void* context) {
  if (workers_.empty() || num_tasks <= 1) {
    for (int i = 0; i < num_tasks; ++i) task(context, i);
    return;
  }
  task_ = task;
  context_ = context;
  num_unfinished_.store(num_tasks, std::memory_order_relaxed);
  // Sequentially consistent, like a worker's increment of num_sleeping_ and its last read of
  // claims_. So either this thread sees that the worker sleeps, or the worker sees the tasks.
  claims_.store(static_cast<uint64_t>(num_tasks) << kCountShift);
  if (num_sleeping_.load() > 0) {
    MutexLock lock(mutex_);
    wake_.NotifyAll();
  }
  DoTasks();
  // Only tasks that other threads are running are left. One of these threads may have lost its
  // core, so this thread gives up its own.
  while (!SpinBriefly([this] { return num_unfinished_.load(std::memory_order_acquire) == 0; })) {
    std::this_thread::yield();
  }
}

void ThreadPool::DoTasks() {
  while (HasTask(claims_.load(std::memory_order_relaxed))) {
    const uint64_t claim = claims_.fetch_add(1, std::memory_order_acq_rel);
    if (!HasTask(claim)) return;
    task_(context_, static_cast<int>(claim & kNextMask));
    num_unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void ThreadPool::WorkerLoop() {
  while (true) {
    AwaitTasks();
    if (stopping_.load()) return;
    DoTasks();
  }
}

void ThreadPool::AwaitTasks() {
  if (SpinBriefly([this] { return HasTask(claims_.load(std::memory_order_acquire)); })) return;
  MutexLock lock(mutex_);
  num_sleeping_.fetch_add(1);
  while (!HasTask(claims_.load()) && !stopping_.load()) wake_.Wait(mutex_);
  num_sleeping_.fetch_sub(1);
}

}  // namespace lockstep::kernels
