#include "kernels/formats/strips/gguf_strip_codecs.cuh"
#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Q5_0Kernels() {
  return {.find = FindStripKernelOf<Q5_0Codec>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Q5_0Codec>)};
}

}  // namespace lockstep::kernels
