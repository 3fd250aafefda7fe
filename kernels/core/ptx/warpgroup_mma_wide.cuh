#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"

// WarpgroupMma for 128 columns and more.
namespace lockstep::kernels::ptx {

// A register list of the instruction, eight at a time.
#define LOCKSTEP_ACC8(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

template <>
__device__ __forceinline__ void WarpgroupMma<128>(float (&d)[64], uint64_t a, uint64_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63}, "
      "%64, %65, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void WarpgroupMma<160>(float (&d)[80], uint64_t a, uint64_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
      "%80, %81, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56), LOCKSTEP_ACC8(64),
        LOCKSTEP_ACC8(72)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<192>(float (&d)[96], uint64_t a, uint64_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56), LOCKSTEP_ACC8(64),
        LOCKSTEP_ACC8(72), LOCKSTEP_ACC8(80), LOCKSTEP_ACC8(88)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<224>(float (&d)[112], uint64_t a, uint64_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %114, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
      "%111}, "
      "%112, %113, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56), LOCKSTEP_ACC8(64),
        LOCKSTEP_ACC8(72), LOCKSTEP_ACC8(80), LOCKSTEP_ACC8(88), LOCKSTEP_ACC8(96),
        LOCKSTEP_ACC8(104)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<256>(float (&d)[128], uint64_t a, uint64_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40), LOCKSTEP_ACC8(48), LOCKSTEP_ACC8(56), LOCKSTEP_ACC8(64),
        LOCKSTEP_ACC8(72), LOCKSTEP_ACC8(80), LOCKSTEP_ACC8(88), LOCKSTEP_ACC8(96),
        LOCKSTEP_ACC8(104), LOCKSTEP_ACC8(112), LOCKSTEP_ACC8(120)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef LOCKSTEP_ACC8

}  // namespace lockstep::kernels::ptx
