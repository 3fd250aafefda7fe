#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Int8Group32ZerosKernels() {
  return {.find = FindStripKernelOf<Int8Codec<32, true>>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Int8Codec<32, true>>)};
}

}  // namespace lockstep::kernels
