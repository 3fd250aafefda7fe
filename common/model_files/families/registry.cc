#include <algorithm>
#include <array>

#include "common/model_files/model_family.h"

namespace lockstep {

// A line for each family, in the order of messages to people.
const ModelFamily& LlamaFamily();
const ModelFamily& Qwen2Family();
const ModelFamily& Qwen3Family();
const ModelFamily& Gpt2Family();

std::span<const ModelFamily* const> ModelFamilies() {
  static const std::array kFamilies = {&LlamaFamily(), &Qwen2Family(), &Qwen3Family(),
                                       &Gpt2Family()};
  return kFamilies;
}

const ModelFamily* FindModelFamily(std::string_view name) {
  const auto families = ModelFamilies();
  const auto found = std::find_if(families.begin(), families.end(), [name](const auto* family) {
    return family->name == name;
  });
  return found == families.end() ? nullptr : *found;
}

}  // namespace lockstep
