#pragma once

#include <cstdint>

#include "kernels/norm/rms_norm.h"
#include "kernels/norm/row_norm.cuh"

namespace lockstep::kernels {

// RMSNorm of row blockIdx.x, in one block: what the kernels with a row for each block share. Each
// thread has kGroups runs of 8 consecutive elements. Call every method from all threads, in this
// order. Only the weight is read before Load.
template <int kGroups>
class RmsNormRow {
 public:
  __device__ explicit RmsNormRow(const RmsNormParams& params)
      : params_(params), first_group_(static_cast<int>(threadIdx.x) * kGroups) {
    for (int j = 0; j < kGroups; ++j) {
      if (Exists(j)) LoadParameters(params_.weight, first_group_ + j, weight_[j]);
    }
  }

  // visit(index): of this thread's groups of the row.
  template <typename Visit>
  __device__ void ForEachGroup(const Visit& visit) const {
    for (int j = 0; j < kGroups; ++j) {
      if (Exists(j)) visit(first_group_ + j);
    }
  }

  __device__ void Load() {
    for (int j = 0; j < kGroups; ++j) {
      if (Exists(j)) Unpack(Row(params_.input)[first_group_ + j], values_[j]);
    }
  }
  // delta(index): a group of bf16 to add to the input. Writes the sums to residual_out.
  template <typename Delta>
  __device__ void LoadAdding(const Delta& delta) {
    Load();
    for (int j = 0; j < kGroups; ++j) {
      if (!Exists(j)) continue;
      const int index = first_group_ + j;
      Row(params_.residual_out)[index] = AddRounded(delta(index), values_[j]);
    }
  }

  __device__ void Normalize() {
    __shared__ float warp_sums[32];
    float sums[kGroups];
    for (int j = 0; j < kGroups; ++j) {
      float squares[kRowGroup];
      for (int i = 0; i < kRowGroup; ++i) squares[i] = __fmul_rn(values_[j][i], values_[j][i]);
      sums[j] = GroupTreeSum(squares);
    }
    const float sum =
        BlockTreeSum(kGroups == 1 ? sums[0] : __fadd_rn(sums[0], sums[kGroups - 1]), warp_sums);
    const float inverse_rms = DeviceInverseRms(sum, static_cast<float>(params_.size), params_.eps);
    for (int j = 0; j < kGroups; ++j) {
      if (!Exists(j)) continue;
      for (int i = 0; i < kRowGroup; ++i) {
        values_[j][i] = DeviceNormedValue(values_[j][i], inverse_rms, weight_[j][i]);
      }
      Row(params_.output)[first_group_ + j] = Pack(values_[j]);
    }
  }

 private:
  __device__ bool Exists(int j) const {
    return first_group_ + j < static_cast<int>(params_.size) / kRowGroup;
  }
  __device__ const uint4* Row(const BFloat16* rows) const {
    return reinterpret_cast<const uint4*>(rows + blockIdx.x * params_.size);
  }
  __device__ uint4* Row(BFloat16* rows) const {
    return reinterpret_cast<uint4*>(rows + blockIdx.x * params_.size);
  }

  const RmsNormParams& params_;
  const int first_group_;
  float weight_[kGroups][kRowGroup];
  float values_[kGroups][kRowGroup] = {};
};

}  // namespace lockstep::kernels
