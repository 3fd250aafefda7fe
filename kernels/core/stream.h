#pragma once

#include <algorithm>

#include "kernels/core/instruction_set.h"
#include "kernels/core/thread_pool.h"

namespace lockstep::kernels {

// Where an op runs on the CPU: the team of threads that shares the work, and the instruction set.
// CUDA ops take a CudaStream instead (kernels/device/cuda_stream.h).
struct Stream {
  ThreadPool* threads = nullptr;  // null: the calling thread alone
  InstructionSet instruction_set = InstructionSet::kPortable;

  // How many tasks to cut `num_items` into: several per thread, so that a thread that is slowed
  // down does not hold up the others.
  int NumTasks(int64_t num_items) const {
    constexpr int kTasksPerThread = 4;
    if (threads == nullptr || threads->num_threads() == 1) return 1;
    return static_cast<int>(
        std::min<int64_t>(num_items, int64_t{kTasksPerThread} * threads->num_threads()));
  }
};

// Calls task(index) for 0 .. num_tasks - 1.
template <typename Task>
void ParallelTasks(const Stream& stream, int num_tasks, Task task) {
  if (stream.threads == nullptr) {
    for (int i = 0; i < num_tasks; ++i) task(i);
  } else {
    stream.threads->Run(num_tasks, task);
  }
}

// Calls body(begin, end) for consecutive ranges that cover `num_items` once. A loop of fewer than
// `min_items_to_share` runs on the calling thread. Where the borders lie never alters a result.
template <typename Body>
void ParallelRanges(const Stream& stream, int64_t num_items, int64_t min_items_to_share,
                    Body body) {
  if (num_items <= 0) return;
  const int num_tasks = num_items < min_items_to_share ? 1 : stream.NumTasks(num_items);
  ParallelTasks(stream, num_tasks, [&](int index) {
    const ItemRange range = TaskItems(num_items, index, num_tasks);
    body(range.begin, range.end);
  });
}

}  // namespace lockstep::kernels
