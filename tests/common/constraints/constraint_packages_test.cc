#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/constraints/engine_process.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(ConstraintPackagesTest, AFolderMustHaveTheLibrary) {
  const TempFolder folder;
  EXPECT_THAT(FindConstraintPackages(folder.path(), "/bin/engine"),
              HasError(absl::StatusCode::kNotFound,
                       HasSubstr(folder.path() + " has no Python package llguidance")));
  std::filesystem::create_directory(folder.path() + "/llguidance");
  EXPECT_EQ(FindConstraintPackages(folder.path(), "/bin/engine").value_or("none"), folder.path());
  EXPECT_EQ(FindConstraintPackages("off", "/bin/engine").value_or("none"), "");
}

TEST(ConstraintPackagesTest, AWheelHasItBesideItself) {
  const TempFolder folder;
  const std::string program = folder.path() + "/lockstep/bin/lockstep-constraint-engine";
  std::filesystem::create_directories(folder.path() + "/lockstep/bin");
  std::filesystem::create_directory(folder.path() + "/llguidance");
  // Not a wheel.
  EXPECT_NE(FindConstraintPackages("auto", program).value_or("none"), folder.path());
  std::ofstream(folder.path() + "/lockstep/commands.py") << "";
  EXPECT_EQ(FindConstraintPackages("auto", program).value_or("none"), folder.path());
}

TEST(ConstraintEngineConfigTest, ReportsEveryViolation) {
  ConstraintEngineConfig config = {.python = "python3", .job_time = absl::ZeroDuration()};
  config.memory_mib = 1;
  EXPECT_THAT(config.Validate(),
              HasError(kInvalid, ::testing::AllOf(HasSubstr("constraint_python"),
                                                  HasSubstr("constraint_timeout"),
                                                  HasSubstr("constraint_memory_mib"))));
  EXPECT_THAT(ConstraintEngineConfig().Validate(), IsOk());
}

}  // namespace
}  // namespace lockstep
