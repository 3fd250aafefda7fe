#include "kernels/formats/strips/fp4_strip_codecs.cuh"
#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Mxfp4Kernels() {
  return {.find = FindStripKernelOf<Mxfp4Codec>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Mxfp4Codec>)};
}

}  // namespace lockstep::kernels
