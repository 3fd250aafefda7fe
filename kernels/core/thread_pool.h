#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"

namespace lockstep::kernels {

// A fixed team of threads for data-parallel loops. The calling thread is one of them. Tasks of a
// run are claimed one by one, so a thread that loses its core delays only the task it is running.
// Between two runs the other threads spin for a few tens of microseconds, because the next loop of
// a forward pass follows within one or two. Then they sleep, because the router needs the same
// cores. Only one thread at a time may call Run, and not from inside a task. Tasks may wait for
// each other if there are no more of them than threads. Never allocates after construction.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // >= 1
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index) once for every index 0 .. num_tasks - 1, on any threads, and returns when all
  // are done.
  template <typename Task>
  void Run(int num_tasks, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    RunErased(
        num_tasks, [](void* context, int index) { (*static_cast<Plain*>(context))(index); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  using ErasedTask = void (*)(void* context, int index);

  void RunErased(int num_tasks, ErasedTask task, void* context);
  void WorkerLoop();
  // Claims and does tasks until none is left to claim.
  void DoTasks();
  // Returns when there is something to claim or the team ends.
  void AwaitTasks();

  // Written before claims_ is, read only by threads that hold a claim of the same run.
  ErasedTask task_ = nullptr;
  void* context_ = nullptr;

  // Upper half: number of tasks of the run. Lower half: the next task to claim. Both share one
  // word, so that a claim can never be mistaken for a claim of another run.
  alignas(64) std::atomic<uint64_t> claims_{0};
  alignas(64) std::atomic<int> num_unfinished_{0};
  alignas(64) std::atomic<int> num_sleeping_{0};
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar wake_;
  std::vector<NamedThread> workers_;
};

// Half-open range of items.
struct ItemRange {
  int64_t begin;
  int64_t end;
};

// The share of task `index` when `num_items` are dealt out evenly and in order.
inline ItemRange TaskItems(int64_t num_items, int index, int num_tasks) {
  return {num_items * index / num_tasks, num_items * (index + 1) / num_tasks};
}

}  // namespace lockstep::kernels
