#include "router/client/generate_flags.h"

#include <gtest/gtest.h>

#include "tests/common/flag_table_checks.h"

namespace lockstep::router {
namespace {

TEST(GenerateFlagsTest, EachFlagSetsAFieldOfItsOwn) {
  ExpectEachFlagSetsAFieldOfItsOwn(GenerateFlags);
}

}  // namespace
}  // namespace lockstep::router
