#pragma once

#include <absl/status/statusor.h>
#include <cuda.h>
#include <cudaTypedefs.h>

namespace lockstep::kernels {

// cuTensorMapEncodeTiled: the driver's function, which the runtime library looks up, so that
// nothing links the driver. UNAVAILABLE when the driver has none.
absl::StatusOr<PFN_cuTensorMapEncodeTiled_v12000> TensorMapEncoder();

}  // namespace lockstep::kernels
