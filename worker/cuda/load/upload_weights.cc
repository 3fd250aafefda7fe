#include "worker/cuda/load/upload_weights.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/device_buffer.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

constexpr int64_t kPieceElements = 2 << 20;

// Consecutive rows of a task.
struct Piece {
  const LoadTask* task;
  int64_t first_row;
  int64_t num_rows;
  int64_t num_elements() const { return num_rows * task->num_columns; }
};

std::vector<Piece> CutIntoPieces(const std::vector<LoadTask>& tasks) {
  std::vector<Piece> pieces;
  for (const LoadTask& task : tasks) {
    // Interleaved rows change places within a head, so a head stays whole. A vector is small, and
    // stays whole too.
    const int64_t unit =
        task.vector != nullptr ? task.num_rows : std::max<int64_t>(task.interleaved_head_dim, 1);
    const int64_t step = std::max<int64_t>(kPieceElements / (task.num_columns * unit), 1) * unit;
    for (int64_t row = 0; row < task.num_rows; row += step) {
      pieces.push_back({&task, row, std::min(step, task.num_rows - row)});
    }
  }
  return pieces;
}

bool IsCopiedAsItIs(const LoadTask& task) {
  return task.vector == nullptr && task.interleaved_head_dim == 0 && !task.transposed &&
         !task.tensor->random.has_value() && task.tensor->type == GgmlType::kBF16;
}

// Uploads the pieces of one thread. While the device copies one pinned buffer, the thread fills the
// other.
class Uploader {
 public:
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(int device, int64_t max_elements) {
    auto uploader = std::unique_ptr<Uploader>(new Uploader(device));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithFlags(&uploader->stream_, cudaStreamNonBlocking));
    for (Half& half : uploader->halves_) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          half.memory, kernels::PinnedBuffer::Create(
                           static_cast<size_t>(max_elements) * 4,
                           "staging of weights in pinned host memory (fewer --threads need less)"));
      LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&half.copied, cudaEventDisableTiming));
    }
    return uploader;
  }
  ~Uploader() {
    if (stream_ != nullptr) {
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    }
    for (const Half& half : halves_) {
      if (half.copied != nullptr) cudaEventDestroy(half.copied);
    }
  }

  absl::Status Upload(const Piece& piece) {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(device_));
    Half& half = halves_[next_half_];
    next_half_ = 1 - next_half_;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(half.copied));
    const LoadTask& task = *piece.task;
    void* target = nullptr;
    size_t num_bytes = 0;
    if (task.vector != nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(ConvertVector(piece, half.memory.data<float>()));
      target = task.vector;
      num_bytes = static_cast<size_t>(piece.num_elements()) * sizeof(float);
    } else {
      LOCKSTEP_RETURN_IF_ERROR(ConvertRows(piece, half.memory.data<BFloat16>()));
      target = task.rows + piece.first_row * task.num_columns;
      num_bytes = static_cast<size_t>(piece.num_elements()) * sizeof(BFloat16);
    }
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(target, half.memory.data(), num_bytes, cudaMemcpyHostToDevice, stream_));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventRecord(half.copied, stream_));
    return absl::OkStatus();
  }

  absl::Status Finish() {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return absl::OkStatus();
  }

 private:
  struct Half {
    kernels::PinnedBuffer memory;
    cudaEvent_t copied = nullptr;
  };

  explicit Uploader(int device) : device_(device) {}

  absl::Status ConvertVector(const Piece& piece, float* target) {
    scratch_.resize(static_cast<size_t>(piece.num_rows));
    LOCKSTEP_RETURN_IF_ERROR(piece.task->Read(0, scratch_));
    for (int64_t i = 0; i < piece.num_rows; ++i) {
      target[piece.task->TargetRow(i)] = scratch_[static_cast<size_t>(i)];
    }
    return absl::OkStatus();
  }

  absl::Status ConvertRows(const Piece& piece, BFloat16* target) {
    const LoadTask& task = *piece.task;
    const int64_t columns = task.num_columns;
    const size_t num_elements = static_cast<size_t>(piece.num_elements());
    if (IsCopiedAsItIs(task)) {
      return CopyRows(*task.tensor, task.first_row + piece.first_row, columns,
                      {target, num_elements});
    }
    scratch_.resize(num_elements);
    LOCKSTEP_RETURN_IF_ERROR(task.Read(piece.first_row, scratch_));
    for (int64_t row = 0; row < piece.num_rows; ++row) {
      const float* values = scratch_.data() + row * columns;
      const int64_t target_row = task.TargetRow(piece.first_row + row) - piece.first_row;
      BFloat16* to = target + target_row * columns;
      for (int64_t i = 0; i < columns; ++i) to[i] = kernels::ToBFloat16(values[i]);
    }
    return absl::OkStatus();
  }

  const int device_;
  cudaStream_t stream_ = nullptr;
  std::array<Half, 2> halves_;
  int next_half_ = 0;
  std::vector<float> scratch_;
};

}  // namespace

absl::Status UploadWeights(const std::vector<LoadTask>& tasks, int device,
                           kernels::ThreadPool& threads, const LoadProgress& progress) {
  const std::vector<Piece> pieces = CutIntoPieces(tasks);
  int64_t max_elements = 0;
  int64_t total_elements = 0;
  for (const Piece& piece : pieces) {
    max_elements = std::max(max_elements, piece.num_elements());
    total_elements += piece.num_elements();
  }
  const size_t num_threads = static_cast<size_t>(threads.num_threads());
  std::vector<std::unique_ptr<Uploader>> uploaders(num_threads);
  for (std::unique_ptr<Uploader>& uploader : uploaders) {
    LOCKSTEP_ASSIGN_OR_RETURN(uploader, Uploader::Create(device, max_elements));
  }
  std::vector<absl::Status> statuses(num_threads);
  int64_t done_elements = 0;
  for (size_t first = 0; first < pieces.size(); first += num_threads) {
    const size_t count = std::min(num_threads, pieces.size() - first);
    threads.Run(static_cast<int>(count), [&](int index) {
      const size_t i = static_cast<size_t>(index);
      statuses[i] = uploaders[i]->Upload(pieces[first + i]);
    });
    for (size_t i = 0; i < count; ++i) {
      LOCKSTEP_RETURN_IF_ERROR(statuses[i]);
      done_elements += pieces[first + i].num_elements();
    }
    if (progress) {
      progress(static_cast<double>(done_elements) / static_cast<double>(total_elements));
    }
  }
  for (const std::unique_ptr<Uploader>& uploader : uploaders) {
    LOCKSTEP_RETURN_IF_ERROR(uploader->Finish());
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
