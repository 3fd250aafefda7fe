#include "kernels/formats/strips/gguf_strip_codecs.cuh"
#include "kernels/formats/strips/kernels/strip_kernels.cuh"
#include "kernels/formats/strips/strip_kernel_table.h"

namespace lockstep::kernels {

StripKernels Q5_KKernels() {
  return {.find = FindStripKernelOf<Q5_KCodec>,
          .expand = reinterpret_cast<const void*>(ExpandStripsKernel<Q5_KCodec>)};
}

}  // namespace lockstep::kernels
