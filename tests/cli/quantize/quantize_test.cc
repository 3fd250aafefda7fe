#include "cli/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/verbs.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

struct QuantizeOutcome {
  int exit_code;
  std::string out, error;
};

QuantizeOutcome Quantize(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit_code = RunQuantize(*FindVerb("quantize"), words);
  return {.exit_code = exit_code,
          .out = ::testing::internal::GetCapturedStdout(),
          .error = ::testing::internal::GetCapturedStderr()};
}

TEST(QuantizeVerbTest, SaysWhatItWrote) {
  const TempFolder folder;
  const std::string output = folder.path() + "/out";
  const QuantizeOutcome outcome =
      Quantize({"tests/golden/tiny-llama", "--to", "w4a16", "--group-size=8", "--output", output});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr(output + ": 14 of 21 tensors quantised (pack-quantized, 4 "
                                              "bits, groups of 8); 0.3 MB became "));
}

TEST(QuantizeVerbTest, NamesEveryWrongArgument) {
  struct Case {
    std::vector<std::string> words;
    std::string error;
  };
  const Case cases[] = {
      {{}, "--output is missing"},
      {{"m", "--output", "o"}, "--to is missing"},
      {{"m", "--to", "w3", "--output", "o"},
       "--to: expected one of fp8, fp8-block, w4a16, w4a16-asym, w8a16, got \"w3\""},
      {{"m", "--to", "fp8", "--output", "o", "--group-size", "64"},
       "--group-size: fp8 has no groups"},
      {{"m", "--to", "w4a16", "--output", "o", "--group-size", "0"}, "--group-size: "},
      {{"m", "n", "--to", "fp8", "--output", "o"}, "unexpected argument \"n\""},
  };
  for (const Case& c : cases) {
    const QuantizeOutcome outcome = Quantize(c.words);
    EXPECT_EQ(outcome.exit_code, 2) << c.error;
    EXPECT_THAT(outcome.error, HasSubstr("lockstep quantize: " + c.error));
  }
}

TEST(QuantizeVerbTest, FailsByName) {
  const TempFolder folder;
  const std::string output = folder.path() + "/out";
  const QuantizeOutcome gguf = Quantize({"model.gguf", "--to", "fp8", "--output", output});
  EXPECT_EQ(gguf.exit_code, 1);
  EXPECT_THAT(gguf.error, HasSubstr("model.gguf is a GGUF file, expected a folder"));
  const QuantizeOutcome absent =
      Quantize({folder.path() + "/no", "--to", "fp8", "--output", output});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.error, HasSubstr(folder.path() + "/no/config.json"));
}

}  // namespace
}  // namespace lockstep::cli
