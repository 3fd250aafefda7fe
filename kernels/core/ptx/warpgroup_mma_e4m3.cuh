#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"

// Products of E4M3 codes; PTX ISA 9.0, "Asynchronous warpgroup matrix instructions". Fences,
// commits and waits are those of warpgroup_mma.cuh.
namespace lockstep::kernels::ptx {

// A row of MatrixDescriptor then is 128 codes of ascending k. Add this to go on by 32 of them.
inline constexpr uint64_t kDescriptorStepE4M3K32 = 32 >> 4;

// d = a * transpose(b), plus d with `accumulate`; a: 64 x 32, b: kN x 32, d: 64 x kN fp32, which
// lies in the threads as that of WarpgroupMma. The sum keeps fewer bits than fp32 inside. Its bits
// do not depend on kN, nor on which operand is a; those of mma.sync are others (docs/numerics.md).
template <int kN>
__device__ void WarpgroupMmaE4M3(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate);

// A register list of the instruction, eight at a time.
#define LOCKSTEP_ACC8(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

template <>
__device__ __forceinline__ void WarpgroupMmaE4M3<8>(float (&d)[4], uint64_t a, uint64_t b,
                                                    bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3}, "
      "%4, %5, accumulate, 1, 1;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMmaE4M3<16>(float (&d)[8], uint64_t a, uint64_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, accumulate, 1, 1;\n"
      "}"
      : LOCKSTEP_ACC8(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMmaE4M3<32>(float (&d)[16], uint64_t a, uint64_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15}, "
      "%16, %17, accumulate, 1, 1;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMmaE4M3<64>(float (&d)[32], uint64_t a, uint64_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMmaE4M3<128>(float (&d)[64], uint64_t a, uint64_t b,
                                                      bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63}, "
      "%64, %65, accumulate, 1, 1;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef LOCKSTEP_ACC8

}  // namespace lockstep::kernels::ptx
