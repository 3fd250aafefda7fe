#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

absl::StatusOr<int> Half(int number) {
  if (number % 2 != 0) return InvalidArgument("{} is odd", number);
  return number / 2;
}

absl::StatusOr<int> Quarter(int number) {
  LOCKSTEP_ASSIGN_OR_RETURN(const int half, Half(number));
  LOCKSTEP_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status CheckQuarter(int number, bool* reached_end) {
  LOCKSTEP_RETURN_IF_ERROR(Quarter(number).status());
  *reached_end = true;
  return absl::OkStatus();
}

TEST(StatusTest, EachHelperHasItsCodeAndFormatsItsMessage) {
  const std::pair<absl::Status, absl::StatusCode> cases[] = {
      {InvalidArgument("n = {}", 1), absl::StatusCode::kInvalidArgument},
      {FailedPrecondition("n = {}", 1), absl::StatusCode::kFailedPrecondition},
      {NotFound("n = {}", 1), absl::StatusCode::kNotFound},
      {ResourceExhausted("n = {}", 1), absl::StatusCode::kResourceExhausted},
      {Unavailable("n = {}", 1), absl::StatusCode::kUnavailable},
      {Unimplemented("n = {}", 1), absl::StatusCode::kUnimplemented},
      {Internal("n = {}", 1), absl::StatusCode::kInternal},
      {MakeError(absl::StatusCode::kAborted, "n = {}", 1), absl::StatusCode::kAborted}};
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(Message(status), "n = 1");
  }
}

TEST(StatusTest, AssignOrReturnPassesValuesAndErrors) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_THAT(Quarter(7), HasError(absl::StatusCode::kInvalidArgument, "7 is odd"));
  EXPECT_THAT(Quarter(14), HasError(absl::StatusCode::kInvalidArgument, "7 is odd"));
}

TEST(StatusTest, AssignOrReturnMovesWhatCannotBeCopied) {
  const auto take = []() -> absl::StatusOr<std::unique_ptr<int>> {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<int> owned,
                              absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(5)));
    return owned;
  };
  EXPECT_EQ(**take(), 5);
}

TEST(StatusTest, ReturnIfErrorStopsOnlyAtErrors) {
  bool reached_end = false;
  EXPECT_THAT(CheckQuarter(7, &reached_end),
              HasError(absl::StatusCode::kInvalidArgument, "7 is odd"));
  EXPECT_FALSE(reached_end);
  EXPECT_THAT(CheckQuarter(8, &reached_end), IsOk());
  EXPECT_TRUE(reached_end);
}

TEST(StatusTest, AnnotatePrefixesErrorsAndKeepsOk) {
  EXPECT_THAT(Annotate(NotFound("no such key"), "a.gguf"),
              HasError(absl::StatusCode::kNotFound, "a.gguf: no such key"));
  EXPECT_THAT(Annotate(absl::OkStatus(), "a.gguf"), IsOk());
}

}  // namespace
}  // namespace lockstep
