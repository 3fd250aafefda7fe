#include <algorithm>
#include <array>

#include "common/model_files/model_family.h"

namespace lockstep {

// All families, in the order in which messages list them.
#define LOCKSTEP_FOR_EACH_FAMILY(family) \
  family(LlamaFamily) family(Qwen2Family) family(Qwen3Family) family(Gpt2Family)

#define LOCKSTEP_DECLARE_FAMILY(name) const ModelFamily& name();
#define LOCKSTEP_FAMILY_ADDRESS(name) &name(),

LOCKSTEP_FOR_EACH_FAMILY(LOCKSTEP_DECLARE_FAMILY)

std::span<const ModelFamily* const> ModelFamilies() {
  static const std::array kFamilies = {LOCKSTEP_FOR_EACH_FAMILY(LOCKSTEP_FAMILY_ADDRESS)};
  return kFamilies;
}

const ModelFamily* FindModelFamily(std::string_view name) {
  const auto families = ModelFamilies();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [name](const auto* family) { return family->name == name; });
  return found == families.end() ? nullptr : *found;
}

}  // namespace lockstep
