#include "worker/model/weights/load_weights.h"

#include <algorithm>
#include <vector>

#include "common/status.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

// Elements that one thread converts before the next progress report.
constexpr int64_t kChunkElements = 1 << 20;

// Converts rows [begin, end) of the task: one thread's share of a chunk.
absl::Status ConvertRows(const LoadTask& task, int64_t begin, int64_t end,
                         std::vector<float>& scratch) {
  const int64_t columns = task.num_columns;
  scratch.resize(static_cast<size_t>((end - begin) * columns));
  LOCKSTEP_RETURN_IF_ERROR(task.Read(begin, scratch));
  for (int64_t row = begin; row < end; ++row) {
    const float* values = scratch.data() + (row - begin) * columns;
    const int64_t target = task.TargetRow(row);
    const int64_t output = task.first_output + target;
    if (task.panels != nullptr && output < task.panel_outputs) {
      kernels::PackRows(values, output, 1, columns, task.panels);
    }
    if (task.rows != nullptr) {
      BFloat16* to = task.rows + target * columns;
      for (int64_t i = 0; i < columns; ++i) to[i] = kernels::ToBFloat16(values[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status ConvertVector(const LoadTask& task) {
  std::vector<float> values(static_cast<size_t>(task.num_rows));
  LOCKSTEP_RETURN_IF_ERROR(task.Read(0, values));
  for (int64_t i = 0; i < task.num_rows; ++i) {
    task.vector[task.TargetRow(i)] = values[static_cast<size_t>(i)];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunLoadTasks(const std::vector<LoadTask>& tasks, kernels::ThreadPool& threads,
                          const LoadProgress& progress) {
  const int num_tasks = threads.num_threads();
  std::vector<std::vector<float>> scratch(static_cast<size_t>(num_tasks));
  std::vector<absl::Status> statuses(static_cast<size_t>(num_tasks));
  int64_t total_elements = 0;
  for (const LoadTask& task : tasks) total_elements += task.num_rows * task.num_columns;
  int64_t done_elements = 0;
  for (const LoadTask& task : tasks) {
    if (task.vector != nullptr) LOCKSTEP_RETURN_IF_ERROR(ConvertVector(task));
    const int64_t num_matrix_rows = task.vector != nullptr ? 0 : task.num_rows;
    const int64_t chunk_rows = std::max<int64_t>(kChunkElements / task.num_columns, 1) * num_tasks;
    for (int64_t begin = 0; begin < num_matrix_rows; begin += chunk_rows) {
      const int64_t num_rows = std::min(chunk_rows, num_matrix_rows - begin);
      threads.Run(num_tasks, [&](int index) {
        const kernels::ItemRange range = kernels::TaskItems(num_rows, index, num_tasks);
        if (range.begin == range.end) return;
        statuses[static_cast<size_t>(index)] = ConvertRows(
            task, begin + range.begin, begin + range.end, scratch[static_cast<size_t>(index)]);
      });
      for (const absl::Status& status : statuses) LOCKSTEP_RETURN_IF_ERROR(status);
      if (progress) {
        progress(static_cast<double>(done_elements + (begin + num_rows) * task.num_columns) /
                 static_cast<double>(total_elements));
      }
    }
    done_elements += task.num_rows * task.num_columns;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
