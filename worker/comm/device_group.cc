#include "worker/comm/device_group.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <set>

#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/exchange/gathered_rms_norm.h"

namespace lockstep::worker {
namespace {

// The current device's access to `peer`.
absl::Status EnablePeer(int device, int peer) {
  int can_access = 0;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaDeviceCanAccessPeer(&can_access, device, peer));
  if (can_access == 0) {
    return FailedPrecondition(
        "GPU {} has no access to the memory of GPU {}: they cannot share a model", device, peer);
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // would be reported by the next launch
    return absl::OkStatus();
  }
  return kernels::CudaStatus(error, "cudaDeviceEnablePeerAccess");
}

absl::Status CheckMultiprocessors(int device) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kernels::CudaDevice description,
                            kernels::DescribeCudaDevice(device));
  const int count = description.num_multiprocessors;
  if (count >= kernels::kMinExchangeMultiprocessors) return absl::OkStatus();
  return FailedPrecondition("GPU {} has {} multiprocessors; to share a model it needs {}", device,
                            count, kernels::kMinExchangeMultiprocessors);
}

int64_t MaxPushBytes(const DeviceGroup::Options& options) {
  const auto degree = static_cast<int64_t>(options.devices.size());
  const int64_t num_units = DeviceGroup::kMaxPushedBytes / degree / kernels::kExchangeUnitBytes;
  return options.max_push_bytes.value_or(num_units * kernels::kExchangeUnitBytes);
}

}  // namespace

bool ShareADevice(const std::vector<int>& devices) {
  return std::set<int>(devices.begin(), devices.end()).size() < devices.size();
}

DeviceGroup::DeviceGroup(const Options& options)
    : options_(options),
      max_push_bytes_(MaxPushBytes(options)),
      shares_a_device_(ShareADevice(options.devices)),
      memories_(options.devices.size()) {}

absl::StatusOr<std::unique_ptr<DeviceGroup>> DeviceGroup::Create(const Options& options) {
  const int degree = static_cast<int>(options.devices.size());
  if (degree < 2 || degree > kernels::kMaxExchangeRanks) {
    return InvalidArgument("a group of {} GPUs, expected 2 to {}", degree,
                           kernels::kMaxExchangeRanks);
  }
  std::unique_ptr<DeviceGroup> group(new DeviceGroup(options));
  LOCKSTEP_ASSIGN_OR_RETURN(
      group->hang_, kernels::PinnedBuffer::Create(
                        sizeof(uint64_t), "report of a rank that hangs, in pinned host memory"));
  *group->hang_.data<uint64_t>() = 0;
  for (size_t rank = 0; rank < options.devices.size(); ++rank) {
    const int device = options.devices[rank];
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(device));
    LOCKSTEP_RETURN_IF_ERROR(CheckMultiprocessors(device));
    for (const int peer : options.devices) {
      if (peer != device) LOCKSTEP_RETURN_IF_ERROR(EnablePeer(device, peer));
    }
    kernels::DeviceBuffer& memory = group->memories_[rank];
    LOCKSTEP_ASSIGN_OR_RETURN(
        memory, kernels::DeviceBuffer::Create(static_cast<size_t>(group->memory_bytes()),
                                              "exchange between GPUs"));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemset(memory.data(), 0, memory.num_bytes()));
    // The ranks' streams do not wait for the stream of the memset.
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  }
  return group;
}

int64_t DeviceGroup::memory_bytes() const {
  return kernels::ExchangeMemoryBytes(degree(), max_push_bytes_);
}

kernels::ExchangeGroup DeviceGroup::View(int rank) const {
  kernels::ExchangeGroup view = {
      .degree = degree(),
      .rank = rank,
      .shares_a_device = shares_a_device_,
      .max_push_bytes = max_push_bytes_,
      .hung_after_ns = static_cast<uint64_t>(options_.hung_after.count()),
      .hang = hang_.data<uint64_t>()};
  for (size_t i = 0; i < memories_.size(); ++i) view.memories[i] = memories_[i].data();
  return view;
}

absl::Status DeviceGroup::AllGather(int rank, const kernels::CudaStream& stream,
                                    const DeviceColumns& params) {
  return kernels::Exchange(stream, {.group = View(rank),
                                    .columns = params.columns,
                                    .output = params.output,
                                    .num_rows = params.num_rows,
                                    .row_bytes = params.row_bytes});
}

absl::StatusOr<bool> DeviceGroup::GatherRmsNorm(int rank, const kernels::CudaStream& stream,
                                                const kernels::BFloat16* columns,
                                                const kernels::RmsNormParams& norm) {
  kernels::GatheredRmsNormParams params = {.group = View(rank), .norm = norm};
  params.norm.delta = columns;
  if (!kernels::GathersInNorm(params)) return false;
  LOCKSTEP_RETURN_IF_ERROR(kernels::GatheredRmsNorm(stream, params));
  return true;
}

std::string DeviceGroup::HangReport() const {
  const uint64_t word =
      std::atomic_ref<uint64_t>(*hang_.data<uint64_t>()).load(std::memory_order_acquire);
  if (word == 0) return "";
  const auto hang = kernels::ExchangeHang::Decode(word);
  return fmt::format(
      "rank {} has waited {} ms for rank {}, or got other sizes from it (exchange {})", hang.rank,
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.hung_after).count(), hang.peer,
      hang.tag);
}

}  // namespace lockstep::worker
