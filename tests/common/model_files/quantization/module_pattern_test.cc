#include "common/model_files/quantization/module_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(ModulePatternTest, AnExpressionThatNeverEndsIsAnError) {
  const absl::StatusOr<ModulePattern> pattern = ModulePattern::Regex("(a+)+$");
  ASSERT_THAT(pattern, IsOk());
  EXPECT_THAT(pattern->Matches(std::string(60, 'a') + "!"),
              HasError(absl::StatusCode::kResourceExhausted, HasSubstr("takes too many steps")));
}

TEST(ModulePatternTest, Wildcards) {
  const std::pair<std::string, std::vector<std::pair<std::string, bool>>> cases[] = {
      {"a.*.c", {{"a.b.c", true}, {"a.b.b.c", true}, {"a.b.c.d", true}, {"a.b.cd", false}}},
      {"*gate*", {{"a.gate_proj", true}, {"gate", true}, {"a.up", false}}},
      {"lm_head", {{"lm_head", true}, {"lm_head2", false}, {"a.lm_head", false}}},
      {"**a", {{"ba", true}, {"ab", false}}},
  };
  for (const auto& [text, names] : cases) {
    for (const auto& [name, expected] : names) {
      EXPECT_EQ(*ModulePattern::Wildcard(text).Matches(name), expected) << text << " on " << name;
    }
  }
}

}  // namespace
}  // namespace lockstep
