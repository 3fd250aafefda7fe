#include "worker/model/weights/pack_weights.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "common/runtime/mutex.h"
#include "common/status.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::worker {
namespace {

using kernels::PackedWeights;

// Codes that are in memory at once, on all threads together. A matrix that has more is alone.
constexpr int64_t kMaxElementsInFlight = int64_t{1} << 30;

// A matrix that make_packed refused.
struct Refusal {
  size_t index = 0;  // in the plan
  PackTask pack;
  std::string reason;
};

int64_t NumElements(const PackTask& pack) {
  int64_t num_elements = 0;
  for (const LoadTask& piece : pack.pieces) num_elements += piece.num_rows * piece.num_columns;
  return num_elements;
}

// Threads take one matrix after the other.
class Packer {
 public:
  Packer(const std::vector<PackTask>& packs, const MakePackedWeights& make, ModelWeights& weights)
      : packs_(packs), order_(packs.size()), make_(make), weights_(weights) {
    // The largest come first, so that no thread begins one when the others have ended.
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, std::ranges::greater(),
                             [&packs](size_t i) { return NumElements(packs[i]); });
    for (const PackTask& pack : packs_) total_elements_ += NumElements(pack);
  }

  // What one thread does.
  void Run(const LoadProgress& progress) {
    while (const std::optional<size_t> index = Next()) {
      const absl::Status status = Pack(*index);
      const MutexLock lock(mutex_);
      if (!status.ok() && status_.ok()) status_ = status;
      const int64_t num_elements = NumElements(packs_[*index]);
      elements_in_flight_ -= num_elements;
      ended_.NotifyAll();
      done_elements_ += num_elements;
      if (progress) {
        progress(static_cast<double>(done_elements_) / static_cast<double>(total_elements_));
      }
    }
  }

  // In the order of the plan.
  absl::StatusOr<std::vector<Refusal>> Finish() {
    const MutexLock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(status_);
    std::ranges::sort(refused_, std::ranges::less(), &Refusal::index);
    return std::move(refused_);
  }

 private:
  std::optional<size_t> Next() {
    const MutexLock lock(mutex_);
    while (status_.ok() && next_ < order_.size()) {
      const int64_t num_elements = NumElements(packs_[order_[next_]]);
      if (elements_in_flight_ == 0 || elements_in_flight_ + num_elements <= kMaxElementsInFlight) {
        elements_in_flight_ += num_elements;
        return order_[next_++];
      }
      ended_.Wait(mutex_);
    }
    return std::nullopt;
  }

  absl::Status Pack(size_t index) {
    const PackTask& pack = packs_[index];
    std::vector<kernels::QuantizedMatrix> parts;
    for (const LoadTask& piece : pack.pieces) {
      LOCKSTEP_ASSIGN_OR_RETURN(parts.emplace_back(), piece.ReadCodes());
    }
    absl::StatusOr<std::unique_ptr<PackedWeights>> packed = make_(parts);
    const MutexLock lock(mutex_);
    if (absl::IsInvalidArgument(packed.status())) {
      refused_.push_back({.index = index,
                          .pack = pack,
                          .reason = fmt::format("{}: {}", pack.pieces.front().tensor->name,
                                                Message(packed.status()))});
      return absl::OkStatus();
    }
    if (!packed.ok()) return Annotate(packed.status(), pack.pieces.front().tensor->name);
    weights_.At(pack.place).matrix.packed = packed->get();
    weights_.packed.push_back(*std::move(packed));
    return absl::OkStatus();
  }

  const std::vector<PackTask>& packs_;
  std::vector<size_t> order_;  // the order of packing
  const MakePackedWeights& make_;
  int64_t total_elements_ = 0;

  Mutex mutex_;
  ModelWeights& weights_ ABSL_GUARDED_BY(mutex_);
  CondVar ended_;  // a matrix
  int64_t elements_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // of order_
  int64_t done_elements_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Refusal> refused_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

void AddStorage(const kernels::WeightMatrix& matrix, std::set<std::string>& names) {
  if (matrix.packed != nullptr) {
    for (const absl::string_view name : absl::StrSplit(matrix.packed->storage_name(), '+')) {
      names.emplace(name);
    }
  } else if (matrix.data != nullptr) {
    names.emplace("bf16");
  }
}

// Returns the refused matrices.
absl::StatusOr<std::vector<Refusal>> PackAll(const std::vector<PackTask>& packs,
                                             const MakePackedWeights& make,
                                             kernels::ThreadPool& threads,
                                             const LoadProgress& progress, ModelWeights& weights) {
  const int num_threads = std::min(threads.num_threads(), static_cast<int>(packs.size()));
  Packer packer(packs, make, weights);
  threads.Run(num_threads, [&](int) { packer.Run(progress); });
  return packer.Finish();
}

// The progress of a part of the work that begins at the share `begin` of all.
LoadProgress PartOf(const LoadProgress& progress, double begin, double end) {
  if (!progress) return nullptr;
  return [&progress, begin, end](double fraction) { progress(begin + (end - begin) * fraction); };
}

}  // namespace

absl::StatusOr<ModelWeights> LoadModelWeights(const ModelPlan& model, const WeightSource& source,
                                              const WeightLoader& loader,
                                              kernels::ThreadPool& threads,
                                              const LoadProgress& progress) {
  LOCKSTEP_ASSIGN_OR_RETURN(WeightPlan plan, PlanWeights(model, source, loader.storage));
  int64_t packed_elements = 0, other_elements = 0;
  for (const PackTask& pack : plan.packs) packed_elements += NumElements(pack);
  for (const LoadTask& task : plan.tasks) other_elements += task.num_rows * task.num_columns;
  const double share = static_cast<double>(packed_elements) /
                       static_cast<double>(std::max<int64_t>(packed_elements + other_elements, 1));
  const absl::StatusOr<std::vector<Refusal>> refused =
      PackAll(plan.packs, loader.make_packed, threads, PartOf(progress, 0.0, share), plan.weights);
  if (!refused.ok()) return Annotate(refused.status(), source.path());
  std::vector<PackTask> unpacked;
  for (const Refusal& refusal : *refused) unpacked.push_back(refusal.pack);
  if (!unpacked.empty() && loader.storage.rank.rank == 0) {
    spdlog::warn("{}: the weights of {} of {} quantised products become bf16: {}", source.path(),
                 unpacked.size(), plan.packs.size(), refused->front().reason);
  }
  WeightStorage late_storage = loader.storage;
  late_storage.commit = loader.commit_unpacked;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<LoadTask> late,
                            PlanUnpacked(unpacked, late_storage, plan.weights));
  plan.tasks.insert(plan.tasks.end(), late.begin(), late.end());
  LOCKSTEP_RETURN_IF_ERROR(
      Annotate(loader.load(plan.tasks, PartOf(progress, share, 1.0)), source.path()));
  return std::move(plan.weights);
}

std::string StorageName(const ModelWeights& weights) {
  std::set<std::string> names;
  for (const ModelPart part : EnumValues<ModelPart>()) {
    AddStorage(weights.model[part].matrix, names);
  }
  for (const LayerWeights& layer : weights.layers) {
    for (const LayerPart part : EnumValues<LayerPart>()) AddStorage(layer[part].matrix, names);
  }
  constexpr size_t kMaxNames = 3;
  const size_t num_names = names.size();
  if (num_names <= kMaxNames) return absl::StrJoin(names, "+");
  return fmt::format("{}+{} more",
                     absl::StrJoin(names.begin(), std::next(names.begin(), kMaxNames), "+"),
                     num_names - kMaxNames);
}

}  // namespace lockstep::worker
