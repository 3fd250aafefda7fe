#pragma once

#include <cstdint>

// One function per instruction; PTX ISA 9.0, "Warp-level matrix instructions".
namespace lockstep::kernels::ptx {

// d += a * b with a: 16 x 16 (row), b: 16 x 8 (column), d: 16 x 8 fp32. Of a warp's lane l, with
// g = l / 4 and t = l % 4:
//   a[0]: row g,     columns 2t, 2t + 1        a[1]: row g + 8, columns 2t, 2t + 1
//   a[2]: row g,     columns 2t + 8, 2t + 9    a[3]: row g + 8, columns 2t + 8, 2t + 9
//   b[0]: rows 2t, 2t + 1 of column g          b[1]: rows 2t + 8, 2t + 9 of column g
//   d[0], d[1]: row g, columns 2t, 2t + 1      d[2], d[3]: row g + 8, the same columns
// A chain of these over ascending k is the canonical dot product (docs/numerics.md).
__device__ __forceinline__ void MmaM16N8K16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 tiles of 2-byte elements from shared memory; lane l gives the address of row l % 8 of
// tile l / 8 (16 bytes, aligned) and receives of tile i, in r[i], elements 2t, 2t + 1 of row g.
__device__ __forceinline__ void LoadMatrixX4(uint32_t (&r)[4], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address)
               : "memory");
}

// Likewise, each tile transposed.
__device__ __forceinline__ void LoadMatrixX4Transposed(uint32_t (&r)[4], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address)
               : "memory");
}

// Two tiles: lane l, up to 15, gives the address of row l % 8 of tile l / 8.
__device__ __forceinline__ void LoadMatrixX2(uint32_t (&r)[2], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address)
               : "memory");
}

__device__ __forceinline__ void LoadMatrixX2Transposed(uint32_t (&r)[2], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address)
               : "memory");
}

}  // namespace lockstep::kernels::ptx
