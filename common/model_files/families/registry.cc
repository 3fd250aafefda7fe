#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/model_files/model_family.h"

namespace lockstep {

// All families, in the order of messages.
#define LOCKSTEP_FOR_EACH_FAMILY(family) \
  family(LlamaFamily) family(Qwen2Family) family(Qwen3Family) family(Gpt2Family)

#define LOCKSTEP_DECLARE_FAMILY(name) const ModelFamily& name();
#define LOCKSTEP_FAMILY_ADDRESS(name) &name(),

LOCKSTEP_FOR_EACH_FAMILY(LOCKSTEP_DECLARE_FAMILY)

namespace {

std::vector<const ModelFamily*>& RegisteredFamilies() {
  static std::vector<const ModelFamily*> families = {
      LOCKSTEP_FOR_EACH_FAMILY(LOCKSTEP_FAMILY_ADDRESS)};
  return families;
}

}  // namespace

std::span<const ModelFamily* const> ModelFamilies() { return RegisteredFamilies(); }

const ModelFamily* FindModelFamily(std::string_view name) {
  const auto families = ModelFamilies();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [name](const auto* family) { return family->name == name; });
  return found == families.end() ? nullptr : *found;
}

void RegisterModelFamily(const ModelFamily& family) {
  for (const ModelFamily* const other : ModelFamilies()) {
    if (other == &family) return;
    LOCKSTEP_CHECK(other->name != family.name && other->architecture != family.architecture,
                   "a family '{}' for {} is there already", other->name, other->architecture);
  }
  RegisteredFamilies().push_back(&family);
}

}  // namespace lockstep
