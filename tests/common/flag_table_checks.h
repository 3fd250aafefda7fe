#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "common/flag.h"

namespace lockstep {

// Names are different, and a flag changes no field of another flag.
template <typename Config>
void ExpectEachFlagSetsAFieldOfItsOwn(FlagTable (*make_table)(Config&)) {
  Config config;
  std::set<std::string_view> names;
  for (const FlagGroup& group : make_table(config)) {
    for (const Flag& flag : group.flags) {
      EXPECT_TRUE(names.insert(flag.name()).second) << flag.name();
      EXPECT_FALSE(flag.help().empty()) << flag.name();
      Config changed;
      FlagTable table = make_table(changed);
      Flag* const set = FindFlag(table, flag.name());
      // A text, a time or a list; a switch; a number.
      ASSERT_TRUE(set->Set("9ms") || set->Set(set->default_text() == "true" ? "no" : "yes") ||
                  set->Set("9"))
          << flag.name();
      for (const FlagGroup& other_group : table) {
        for (const Flag& other : other_group.flags) {
          EXPECT_EQ(other.ValueText() != other.default_text(), other.name() == flag.name())
              << flag.name() << " changes " << other.name();
        }
      }
    }
  }
  EXPECT_FALSE(names.empty());
}

}  // namespace lockstep
