#pragma once

#include <cstdint>

// One function per instruction; PTX ISA 9.0, "Asynchronous warpgroup matrix instructions". Four
// consecutive warps, the first of them a multiple of four, execute each together.
namespace lockstep::kernels::ptx {

// Before the first multiplication, and after registers of an accumulator were touched otherwise.
__device__ __forceinline__ void WarpgroupFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WarpgroupCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending groups are under way.
template <int kPending>
__device__ __forceinline__ void WarpgroupWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps reads of an accumulator behind the wait in front of this.
template <int kCount>
__device__ __forceinline__ void HoldAccumulator(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Describes a matrix in shared memory. A row is 64 bf16 of ascending k (128 bytes). 8 rows are a
// group of 1024 bytes, aligned to 1024. The 16-byte parts of row r are at part ^ (r % 8). This is
// the order of a tensor map with a 128-byte swizzle. Add kDescriptorStepK16 to go on by 16 columns.
__device__ __forceinline__ constexpr uint64_t MatrixDescriptor(uint32_t shared_address,
                                                               uint32_t group_stride_bytes = 1024) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | static_cast<uint64_t>(group_stride_bytes >> 4) << 32 | uint64_t{1} << 16 |
         (shared_address & 0x3FFFF) >> 4;
}
inline constexpr uint64_t kDescriptorStepK16 = 32 >> 4;

// Describes up to 8 rows in shared memory. Row r begins at shared_address + 16 r, and each next 8
// bf16 are stride_bytes further, so the memory may hold 8 columns of all rows after 8 columns. If
// there are fewer rows, the bytes in their place give products that are not used. To go on by 16
// columns, add 2 strides.
__device__ __forceinline__ uint64_t FewRowsDescriptor(uint32_t shared_address,
                                                      uint32_t stride_bytes) {
  return static_cast<uint64_t>(stride_bytes >> 4) << 16 | (shared_address & 0x3FFFF) >> 4;
}

// d = a * transpose(b), plus d with `accumulate`; a: 64 x 16, b: kN x 16, d: 64 x kN fp32. Lane l
// of warp w of the group, with g = l / 4 and t = l % 4, holds of rows 16w + g and 16w + g + 8,
// columns 8j + 2t and 8j + 2t + 1 in d[4j], d[4j + 1] and d[4j + 2], d[4j + 3]. The bits are those
// of mma.m16n8k16 (docs/numerics.md). warpgroup_mma_wide.cuh has those of 128 columns and more.
template <int kN>
__device__ void WarpgroupMma(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate);

// A register list of the instruction, eight at a time.
#define LOCKSTEP_ACC8(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

template <>
__device__ __forceinline__ void WarpgroupMma<8>(float (&d)[4], uint64_t a, uint64_t b,
                                                bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, "
      "%4, %5, accumulate, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<16>(float (&d)[8], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<24>(float (&d)[12], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %14, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, "
      "%12, %13, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<32>(float (&d)[16], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15}, "
      "%16, %17, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<48>(float (&d)[24], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %26, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23}, "
      "%24, %25, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<64>(float (&d)[32], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}
template <>
__device__ __forceinline__ void WarpgroupMma<96>(float (&d)[48], uint64_t a, uint64_t b,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, accumulate, 1, 1, 0, 0;\n"
      "}"
      : LOCKSTEP_ACC8(0), LOCKSTEP_ACC8(8), LOCKSTEP_ACC8(16), LOCKSTEP_ACC8(24), LOCKSTEP_ACC8(32),
        LOCKSTEP_ACC8(40)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef LOCKSTEP_ACC8

}  // namespace lockstep::kernels::ptx
