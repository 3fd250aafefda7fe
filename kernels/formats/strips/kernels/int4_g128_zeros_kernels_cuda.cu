#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Int4Group128ZerosKernels() {
  return {.find = FindStripKernelOf<Int4Codec<128, true>>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Int4Codec<128, true>>)};
}

}  // namespace lockstep::kernels
