#pragma once

#include <cstdint>

#include "kernels/core/ptx/warpgroup_mma.cuh"

// One function per instruction; PTX ISA 9.0, "Asynchronous warpgroup matrix instructions", with the
// left operand in registers.
namespace lockstep::kernels::ptx {

// Describes a right operand in shared memory. It has 16 rows of ascending k, each of 64 bf16 of
// ascending n (128 bytes). 8 rows are a group of 1024 bytes, aligned to 1024. The 16-byte parts of
// row r are at part ^ (r % 8). Each further panel of 64 columns is `panel_bytes` further.
__device__ __forceinline__ uint64_t TransposedMatrixDescriptor(uint32_t shared_address,
                                                               uint32_t panel_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupStride = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kGroupStride | static_cast<uint64_t>(panel_bytes >> 4) << 16 |
         (shared_address & 0x3FFFF) >> 4;
}

// Keeps reads of an accumulator behind the wait in front of this.
template <int kTiles>
__device__ __forceinline__ void HoldTiles(float (&d)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(d[i][j])::"memory");
  }
}

// Keeps a left operand in its registers until here.
template <int kSteps>
__device__ __forceinline__ void HoldOperand(uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(a[i][j])::"memory");
  }
}

#define LOCKSTEP_TILES2(i)                                                       \
  "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]), "+f"(d[i + 1][0]), \
      "+f"(d[i + 1][1]), "+f"(d[i + 1][2]), "+f"(d[i + 1][3])

// d = a * b, plus d with `accumulate`; a: 64 x 16, each warp's 16 rows as MmaM16N8K16 takes them;
// b: 16 x 8, 16, 32, 64, 128 or 256, by MatrixDescriptor or, if kTransposed (from 64 columns on),
// by TransposedMatrixDescriptor; d[n]: columns 8n .. 8n + 7, as MmaM16N8K16 leaves them.
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[1][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, accumulate, 1, 1, 0;\n"
      "}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[2][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, accumulate, 1, 1, 0;\n"
      "}"
      : LOCKSTEP_TILES2(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[4][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, accumulate, 1, 1, 0;\n"
      "}"
      : LOCKSTEP_TILES2(0), LOCKSTEP_TILES2(2)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <bool kTransposed = false>
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[8][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, accumulate, 1, 1, %38;\n"
      "}"
      : LOCKSTEP_TILES2(0), LOCKSTEP_TILES2(2), LOCKSTEP_TILES2(4), LOCKSTEP_TILES2(6)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kTransposed ? 1 : 0));
}
template <bool kTransposed>
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[16][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, accumulate, 1, 1, %70;\n"
      "}"
      : LOCKSTEP_TILES2(0), LOCKSTEP_TILES2(2), LOCKSTEP_TILES2(4), LOCKSTEP_TILES2(6),
        LOCKSTEP_TILES2(8), LOCKSTEP_TILES2(10), LOCKSTEP_TILES2(12), LOCKSTEP_TILES2(14)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kTransposed ? 1 : 0));
}

template <bool kTransposed>
__device__ __forceinline__ void WarpgroupMmaRegisters(float (&d)[32][4], const uint32_t (&a)[4],
                                                      uint64_t b, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
      "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "{%128, %129, %130, %131}, %132, accumulate, 1, 1, %134;\n"
      "}"
      : LOCKSTEP_TILES2(0), LOCKSTEP_TILES2(2), LOCKSTEP_TILES2(4), LOCKSTEP_TILES2(6),
        LOCKSTEP_TILES2(8), LOCKSTEP_TILES2(10), LOCKSTEP_TILES2(12), LOCKSTEP_TILES2(14),
        LOCKSTEP_TILES2(16), LOCKSTEP_TILES2(18), LOCKSTEP_TILES2(20), LOCKSTEP_TILES2(22),
        LOCKSTEP_TILES2(24), LOCKSTEP_TILES2(26), LOCKSTEP_TILES2(28), LOCKSTEP_TILES2(30)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kTransposed ? 1 : 0));
}

// The same with both operands in shared memory, by MatrixDescriptor; 64 columns.
__device__ __forceinline__ void WarpgroupMmaShared(float (&d)[8][4], uint64_t a, uint64_t b,
                                                   bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_TILES2(0), LOCKSTEP_TILES2(2), LOCKSTEP_TILES2(4), LOCKSTEP_TILES2(6)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef LOCKSTEP_TILES2

}  // namespace lockstep::kernels::ptx
