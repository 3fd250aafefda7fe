#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Fp8Group128Kernels() {
  return {.find = FindStripKernelOf<Fp8Codec>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Fp8Codec>)};
}

}  // namespace lockstep::kernels
