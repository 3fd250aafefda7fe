#pragma once

namespace lockstep::kernels {

// The kernels of one codec, each compiled in a file of its own.
struct StripKernels {
  // Takes (CUtensorMap input, StripTask) by value; null when it is not compiled.
  const void* (*find)(int strips, int stage_blocks, int input_rows, bool holds_input, bool gated);
  const void* expand;  // takes ExpandTask
};
StripKernels Int4Group128Kernels();
StripKernels Int4Group128ZerosKernels();
StripKernels Int4Group32Kernels();
StripKernels Int4Group32ZerosKernels();
StripKernels Int8Group128Kernels();
StripKernels Int8Group32Kernels();
StripKernels Int8Group128ZerosKernels();
StripKernels Int8Group32ZerosKernels();
StripKernels Fp8Group128Kernels();
StripKernels Q4_0Kernels();
StripKernels Q4_1Kernels();
StripKernels Q5_0Kernels();
StripKernels Q5_1Kernels();
StripKernels Q4_KKernels();
StripKernels Q5_KKernels();
StripKernels Q6_KKernels();
StripKernels Mxfp4Kernels();
StripKernels Nvfp4Kernels();

}  // namespace lockstep::kernels
