#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Int4Group32Kernels() {
  return {.find = FindStripKernelOf<Int4Codec<32, false>>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Int4Codec<32, false>>)};
}

}  // namespace lockstep::kernels
