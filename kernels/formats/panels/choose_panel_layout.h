#pragma once

#include "kernels/formats/panels/panel_layout.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// The layout that holds the scales without a loss in the fewest bytes. Two levels stay two where
// both are small enough. Otherwise their products in fp32 become the one level.
PanelLayout ChoosePanelLayout(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
