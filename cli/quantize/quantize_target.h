#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/quantization/quantization_config.h"

namespace lockstep::cli {

// What `lockstep quantize --to` can write.
struct QuantizeTarget {
  std::string_view name;  // "w4a16"
  WeightScheme scheme;    // a group size of 0, if the extent is kGroup, is still to be chosen
};

std::vector<std::string_view> QuantizeTargetNames();
const QuantizeTarget* FindQuantizeTarget(std::string_view name);

// The text of config.json with the quantization_config of this scheme at its end. `config_json`: a
// valid object without one. `ignored`: names of linear modules that keep their weights.
std::string WithQuantizationConfig(std::string_view config_json, const WeightScheme& scheme,
                                   const std::vector<std::string>& ignored);

}  // namespace lockstep::cli
