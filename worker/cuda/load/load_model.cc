#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/hash.h"
#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/load/load_rank.h"
#include "worker/cuda/load/model_limits.h"
#include "worker/cuda/model_parts.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/weights/pack_weights.h"

namespace lockstep::worker {
namespace {

using Parts = CudaModel::Parts;

// Raise this whenever a kernel may give other bits than before for the same input.
constexpr uint64_t kCudaKernelVersion = 3;

absl::Status CheckOptions(const ModelOptions& options) {
  if (!(options.memory_fraction > 0 && options.memory_fraction <= 1)) {
    return InvalidArgument("memory_fraction is {}, expected more than 0 and at most 1",
                           options.memory_fraction);
  }
  if (options.max_fused_rows.value_or(0) < 0) {
    return InvalidArgument("max_fused_rows is {}, expected at least 0", *options.max_fused_rows);
  }
  if (options.max_multiprocessors < 1) {
    return InvalidArgument("max_multiprocessors is {}, expected at least 1",
                           options.max_multiprocessors);
  }
  return absl::OkStatus();
}

// Raise this whenever products with FP8 activations may give other bits.
constexpr uint64_t kFp8ActivationsVersion = 1;

std::vector<uint64_t> KernelConstants(const ModelPlan& plan, const ModelOptions& options) {
  std::vector<uint64_t> constants = {kCudaKernelVersion, kernels::kKeyTile};
  const int64_t num_splits = kernels::NumAttentionSplits(plan.max_context_tokens);
  for (int64_t i = 0; i < num_splits; ++i) {
    constants.push_back(static_cast<uint64_t>(kernels::AttentionSplitBegin(i)));
  }
  if (options.activation_form == ActivationForm::kFp8) {
    constants.push_back(Hash64(std::string_view("fp8 activations")));
    constants.push_back(kFp8ActivationsVersion);
  }
  return constants;
}

// Loads the ranks, each on a thread of its own if there are several: the ranks' threads keep their
// current device.
class Loader {
 public:
  // Everything outlives the object.
  Loader(const ModelOptions& options, const ModelDescription& description,
         const std::vector<int>& devices)
      : options_(options), devices_(devices), statuses_(devices.size()) {
    const auto degree = static_cast<int64_t>(devices.size());
    if (degree > 1) {
      team_ = std::make_unique<RankTeam>(static_cast<int>(degree), ShareADevice(devices));
    }
    for (int64_t rank = 0; rank < degree; ++rank) {
      Parts& parts = *ranks_.emplace_back(std::make_unique<Parts>());
      parts.plan = description.plan;
      parts.info = description.info;
      parts.rank = {.degree = degree, .rank = rank};
      parts.share = ShareOf(parts.plan, parts.rank);
    }
  }

  absl::Status OpenDevices() {
    LOCKSTEP_RETURN_IF_ERROR(OnRanks([this](Parts& parts) {
      const int device = devices_[static_cast<size_t>(parts.rank.rank)];
      const absl::Status status = OpenDevice(device, options_, parts);
      return status.ok() || team_ == nullptr ? status
                                             : Annotate(status, fmt::format("GPU {}", device));
    }));
    if (team_ == nullptr) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(exchange_, DeviceGroup::Create({.devices = devices_}));
    // Create leaves the last rank's device behind.
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(devices_.front()));
    return absl::OkStatus();
  }

  // All but the KV pools.
  absl::Status LoadRanks(const WeightSource& source) {
    return OnRanks([&](Parts& parts) -> absl::Status {
      LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t rope_hash, LoadRank(source, options_, parts));
      // Of the whole table, which every rank has.
      if (parts.rank.rank == 0) rope_hash_ = rope_hash;
      return absl::OkStatus();
    });
  }

  // Block ids are the same on all ranks, so the rank with the least room decides the number of
  // blocks.
  absl::Status CreateKvPools() {
    std::vector<int64_t> num_blocks(ranks_.size());
    LOCKSTEP_RETURN_IF_ERROR(OnRanks([&](Parts& parts) -> absl::Status {
      LOCKSTEP_ASSIGN_OR_RETURN(num_blocks[static_cast<size_t>(parts.rank.rank)],
                                CountKvBlocks(options_, parts));
      return absl::OkStatus();
    }));
    const int64_t fewest = *std::min_element(num_blocks.begin(), num_blocks.end());
    LOCKSTEP_RETURN_IF_ERROR(OnRanks([&](Parts& parts) { return CreateKvPool(fewest, parts); }));
    Parts& first = *ranks_.front();
    return first.fused_pass.Upload(first.weights, first.kv_pool, first.stream);
  }

  absl::StatusOr<std::unique_ptr<CudaModel>> Finish() {
    MemoryUse memory;
    for (const std::unique_ptr<Parts>& parts : ranks_) {
      parts->exchange = exchange_.get();
      memory.weights_bytes += parts->weights.num_bytes();
      memory.kv_cache_bytes += parts->kv_pool.num_bytes();
      memory.workspace_bytes += parts->workspace_memory.num_bytes() +
                                parts->state_memory.num_bytes() +
                                static_cast<uint64_t>(parts->gemm->expansion_bytes()) +
                                static_cast<uint64_t>(parts->fp8_scratch.num_bytes());
      if (exchange_ != nullptr) {
        memory.workspace_bytes += static_cast<uint64_t>(exchange_->memory_bytes());
      }
    }
    Parts& first = *ranks_.front();
    first.info.memory = memory;
    first.info.weights_dtype = StorageName(first.weights);
    if (team_ != nullptr) {
      first.group = std::make_unique<CudaRankGroup>();
      first.group->exchange = std::move(exchange_);
      for (size_t rank = 1; rank < ranks_.size(); ++rank) {
        first.group->others.push_back(std::make_unique<CudaModel>(std::move(ranks_[rank])));
      }
      first.group->team = std::move(team_);
    }
    return std::make_unique<CudaModel>(std::move(ranks_.front()));
  }

  uint64_t rope_hash() const { return rope_hash_; }

 private:
  // The first rank's error, if there is one.
  absl::Status OnRanks(const std::function<absl::Status(Parts&)>& body) {
    const auto run = [&](int rank) {
      const auto i = static_cast<size_t>(rank);
      statuses_[i] = body(*ranks_[i]);
    };
    if (team_ == nullptr) {
      run(0);
    } else {
      team_->Run(run, kLoadPatience);
    }
    for (const absl::Status& status : statuses_) LOCKSTEP_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // Only a rank that never comes back takes this long after rank 0.
  static constexpr std::chrono::hours kLoadPatience{1};

  const ModelOptions& options_;
  const std::vector<int>& devices_;
  std::unique_ptr<DeviceGroup> exchange_;
  std::vector<std::unique_ptr<Parts>> ranks_;
  std::vector<absl::Status> statuses_;
  std::unique_ptr<RankTeam> team_;
  uint64_t rope_hash_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaModel>> LoadCudaModel(const std::string& path,
                                                         const ModelOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const ModelDescription description,
      DescribeModel(path, options, fmt::format("cuda-sm_{}", kComputeCapability)));
  if (absl::Status status = CheckCudaPlan(description.plan, options.tensor_parallel);
      !status.ok()) {
    return Annotate(status, path);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int> devices, RankDevicesOf(options));
  Loader loader(options, description, devices);
  LOCKSTEP_RETURN_IF_ERROR(loader.OpenDevices());
  {
    // The files are closed once the weights are on the devices.
    LOCKSTEP_ASSIGN_OR_RETURN(const WeightSource source, OpenWeights(path, description, options));
    LOCKSTEP_RETURN_IF_ERROR(loader.LoadRanks(source));
  }
  LOCKSTEP_RETURN_IF_ERROR(loader.CreateKvPools());
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CudaModel> model, loader.Finish());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<CudaForwardModel> probe,
                            CudaForwardModel::Create(*model));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const uint64_t numerics_id,
      CheckNumerics(*probe, model->plan(), options, KernelConstants(model->plan(), options),
                    loader.rope_hash()));
  model->set_numerics_id(numerics_id);
  options.Report("self-check", 1.0);
  return model;
}

}  // namespace lockstep::worker
