#pragma once

#include <string>
#include <vector>

#include "worker/model/forward_model.h"

// What a model loaded from tests/golden/tiny-* must do, on any backend.
namespace lockstep::worker {

// docs/numerics.md: at most twice the error of a plain bf16 implementation.
inline constexpr double kErrorFactor = 2.0;

double RmsOf(const std::vector<double>& rms_of_rows);

void ExpectCloseToGolden(ForwardModel& model, const std::string& folder);
void ExpectSameBitsInAnySteps(ForwardModel& model, const std::string& folder);

}  // namespace lockstep::worker
