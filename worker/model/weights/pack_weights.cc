#include "worker/model/weights/pack_weights.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "common/runtime/mutex.h"
#include "common/status.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::worker {
namespace {

using kernels::PackedWeights;

struct PackOutcome {
  std::vector<PackTask> refused;  // by make_packed
  std::string first_reason;       // or empty
};

int64_t NumElements(const PackTask& pack) {
  int64_t num_elements = 0;
  for (const LoadTask& piece : pack.pieces) num_elements += piece.num_rows * piece.num_columns;
  return num_elements;
}

// Threads take one matrix after the other.
class Packer {
 public:
  Packer(std::vector<PackTask> packs, const MakePackedWeights& make, ModelWeights& weights)
      : packs_(std::move(packs)), make_(make), weights_(weights) {
    // The largest come first, so that no thread begins one when the others have ended.
    std::ranges::stable_sort(packs_, std::ranges::greater(), NumElements);
    for (const PackTask& pack : packs_) total_elements_ += NumElements(pack);
  }

  // What one thread does.
  void Run(const LoadProgress& progress) {
    while (const PackTask* const pack = Next()) {
      const absl::Status status = Pack(*pack);
      const MutexLock lock(mutex_);
      if (!status.ok() && status_.ok()) status_ = status;
      done_elements_ += NumElements(*pack);
      if (progress) {
        progress(static_cast<double>(done_elements_) / static_cast<double>(total_elements_));
      }
    }
  }

  absl::StatusOr<PackOutcome> Finish() {
    const MutexLock lock(mutex_);
    LOCKSTEP_RETURN_IF_ERROR(status_);
    return std::move(outcome_);
  }

 private:
  const PackTask* Next() {
    const MutexLock lock(mutex_);
    if (!status_.ok() || next_ == packs_.size()) return nullptr;
    return &packs_[next_++];
  }

  absl::Status Pack(const PackTask& pack) {
    std::vector<kernels::QuantizedMatrix> parts;
    for (const LoadTask& piece : pack.pieces) {
      LOCKSTEP_ASSIGN_OR_RETURN(parts.emplace_back(), piece.ReadCodes());
    }
    absl::StatusOr<std::unique_ptr<PackedWeights>> packed = make_(parts);
    const MutexLock lock(mutex_);
    if (absl::IsInvalidArgument(packed.status())) {
      if (outcome_.refused.empty()) outcome_.first_reason = Message(packed.status());
      outcome_.refused.push_back(pack);
      return absl::OkStatus();
    }
    LOCKSTEP_RETURN_IF_ERROR(packed.status());
    weights_.At(pack.place).matrix.packed = packed->get();
    weights_.packed.push_back(*std::move(packed));
    return absl::OkStatus();
  }

  std::vector<PackTask> packs_;
  const MakePackedWeights& make_;
  int64_t total_elements_ = 0;

  Mutex mutex_;
  ModelWeights& weights_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t done_elements_ ABSL_GUARDED_BY(mutex_) = 0;
  PackOutcome outcome_ ABSL_GUARDED_BY(mutex_);
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

absl::StatusOr<PackOutcome> PackAll(std::vector<PackTask> packs, const MakePackedWeights& make,
                                    kernels::ThreadPool& threads, const LoadProgress& progress,
                                    ModelWeights& weights) {
  const int num_threads = std::min(threads.num_threads(), static_cast<int>(packs.size()));
  Packer packer(std::move(packs), make, weights);
  threads.Run(num_threads, [&](int) { packer.Run(progress); });
  return packer.Finish();
}

// The progress of a part of the work that begins at the share `begin` of all.
LoadProgress PartOf(const LoadProgress& progress, double begin, double end) {
  if (!progress) return nullptr;
  return [&progress, begin, end](double fraction) { progress(begin + (end - begin) * fraction); };
}

}  // namespace

absl::StatusOr<ModelWeights> LoadModelWeights(const ModelSpec& spec, const WeightSource& source,
                                              const WeightLoader& loader,
                                              kernels::ThreadPool& threads,
                                              const LoadProgress& progress) {
  LOCKSTEP_ASSIGN_OR_RETURN(WeightPlan plan, PlanWeights(spec, source, loader.storage));
  int64_t packed_elements = 0, other_elements = 0;
  for (const PackTask& pack : plan.packs) packed_elements += NumElements(pack);
  for (const LoadTask& task : plan.tasks) other_elements += task.num_rows * task.num_columns;
  const double share = static_cast<double>(packed_elements) /
                       static_cast<double>(std::max<int64_t>(packed_elements + other_elements, 1));
  const size_t num_packs = plan.packs.size();
  const absl::StatusOr<PackOutcome> outcome =
      PackAll(std::move(plan.packs), loader.make_packed, threads, PartOf(progress, 0.0, share),
              plan.weights);
  if (!outcome.ok()) return Annotate(outcome.status(), source.path());
  if (!outcome->refused.empty() && loader.storage.rank.rank == 0) {
    spdlog::warn("{}: {} of {} quantised matrices become bf16: {}", source.path(),
                 outcome->refused.size(), num_packs, outcome->first_reason);
  }
  WeightStorage unpacked = loader.storage;
  unpacked.commit = loader.commit_unpacked;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<LoadTask> late,
                            PlanUnpacked(outcome->refused, unpacked, plan.weights));
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
  return absl::StrJoin(names, "+");
}

}  // namespace lockstep::worker
