// Plays every trace of tests/router/core/golden and compares it, whole, with the file.
// trace_runner.h explains the format. After an intended change of behaviour: golden_trace_test
// --regenerate, and read the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/router/core/trace_runner.h"

namespace lockstep::router::testing {

bool regenerate = false;

namespace {

constexpr const char* kFolder = "tests/router/core/golden";

std::vector<std::string> TraceFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".trace") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(GoldenTraceTest, EventsGiveExactlyThesePlans) {
  const std::vector<std::string> files = TraceFiles();
  ASSERT_GE(files.size(), 8u) << "traces are missing from " << kFolder;
  for (const std::string& path : files) {
    SCOPED_TRACE(path);
    const std::string golden = ReadFile(path);
    TraceRunner runner;
    const absl::StatusOr<std::string> played = runner.Run(golden);
    ASSERT_TRUE(played.ok()) << played.status().ToString();
    if (regenerate) {
      std::ofstream(path) << *played;
    } else {
      EXPECT_EQ(*played, golden);
    }
  }
}

TEST(GoldenTraceTest, AChangedPlanIsNoticed) {
  TraceRunner runner;
  const absl::StatusOr<std::string> played = runner.Run(
      "attach\nsubmit 1 prompt=1,2,3\nplan\n  > step 1: 4 prefill and 0 decode tokens\n");
  ASSERT_TRUE(played.ok());
  EXPECT_NE(played->find("step 1: 3 prefill and 0 decode tokens"), std::string::npos);
}

TEST(GoldenTraceTest, AnUnknownCommandIsAnErrorWithItsLine) {
  TraceRunner runner;
  const absl::StatusOr<std::string> played = runner.Run("attach\nexplode 1\n");
  ASSERT_FALSE(played.ok());
  EXPECT_EQ(played.status().ToString(), "INVALID_ARGUMENT: line 2: unknown command explode");
}

}  // namespace

int RunAll(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--regenerate") {
      ADD_FAILURE() << "unknown flag " << argv[i];
      return 2;
    }
    regenerate = true;
  }
  return RUN_ALL_TESTS();
}

}  // namespace lockstep::router::testing

int main(int argc, char** argv) { return lockstep::router::testing::RunAll(argc, argv); }
