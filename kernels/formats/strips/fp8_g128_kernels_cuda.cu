#include "kernels/formats/strips/strip_kernel_table.h"
#include "kernels/formats/strips/strip_kernels.cuh"

namespace lockstep::kernels {

StripKernels Fp8Group128Kernels() {
  return {.find = FindStripKernelOf<Fp8Codec>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Fp8Codec>)};
}

}  // namespace lockstep::kernels
