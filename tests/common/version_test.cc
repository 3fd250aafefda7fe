#include "common/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(VersionTest, NamesTheVersionAndTheCommit) {
  EXPECT_THAT(std::string(Version()), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(GitCommit()), ::testing::MatchesRegex("[0-9a-f]+|unknown"));
}

TEST(VersionTest, OneLineForPeople) {
  EXPECT_THAT(VersionText("lockstep-router"),
              ::testing::MatchesRegex("lockstep-router [0-9.]+ \\(commit ([0-9a-f]+|unknown), "
                                      "(without CUDA|CUDA [0-9.]+)\\)"));
}

}  // namespace
}  // namespace lockstep
