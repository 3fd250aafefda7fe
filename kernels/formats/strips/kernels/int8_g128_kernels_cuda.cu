#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Int8Group128Kernels() {
  return {.find = FindStripKernelOf<Int8Codec<128, false>>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Int8Codec<128, false>>)};
}

}  // namespace lockstep::kernels
