// Which forced calls the constraint engine takes.
#include "router/serving/calls/forced_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/common/constraints/test_engine.h"
#include "tests/common/status_matchers.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Tool(const std::string& name, const std::string& parameters) {
  return R"({"type": "function", "function": {"name": ")" + name + R"(", "parameters": )" +
         parameters + "}}";
}

std::string Tools(const std::string& second) {
  return "[" + Tool("f", R"({"type": "object"})") + "," + Tool("g", second) + "]";
}

class ForcedCallsTest : public ::testing::Test {
 protected:
  ForcedCallsTest() : model_(lockstep::testing::MakeByteModel()) {
    model_.output_format = *FindOutputFormat("hermes");
    request_.mutable_chat()->add_messages()->set_role("user");
  }
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE();
    const ConstraintCheckerConfig config = {.engine = lockstep::testing::TestEngineConfig(),
                                            .max_processes = 1};
    auto started = ConstraintChecker::Start(config, lockstep::testing::TestVocabulary(), metrics_);
    ASSERT_THAT(started, IsOk());
    checker_ = *std::move(started);
  }

  absl::StatusOr<Constraint> Check(const std::string& tools, const std::string& function = "") {
    request_.mutable_chat()->set_tools_json(tools);
    auto& choice = *request_.mutable_chat()->mutable_tool_choice();
    choice.set_mode(lockstep::v1::ToolChoice::REQUIRED);
    choice.set_function(function);
    const auto reading = ReadingOf(request_, model_, lockstep::testing::Bytes("x"));
    EXPECT_THAT(reading, IsOk());
    return CheckForcedCalls(request_.chat(), **reading, *model_.tokenizer, *checker_,
                            &cancellation_);
  }

  ServedModel model_;
  lockstep::v1::GenerateRequest request_;
  prometheus::Registry registry_;
  const ConstraintMetrics metrics_{registry_, "m"};
  std::unique_ptr<ConstraintChecker> checker_;
  CancelFlag cancellation_;
};

TEST_F(ForcedCallsTest, TheConstraintIsAGrammarOfTheCalls) {
  const absl::StatusOr<Constraint> constraint = Check(Tools(R"({"type": "object"})"));
  ASSERT_THAT(constraint, IsOk());
  EXPECT_EQ(constraint->kind, ConstraintKind::kGrammar);
  EXPECT_THAT(constraint->text, HasSubstr(R"(\"name\": \"g\")"));
}

TEST_F(ForcedCallsTest, TheToolAtFaultIsNamed) {
  constexpr char kPath[] = "chat.tools_json[1].function.parameters: ";
  EXPECT_THAT(Check(Tools(R"({"type": "object", "uniqueItems": true})")),
              HasError(kInvalid, AllOf(StartsWith(kPath), HasSubstr("uniqueItems"))));
  EXPECT_THAT(Check(Tools(R"({"type": "string"})")),
              HasError(kInvalid, AllOf(StartsWith(kPath), HasSubstr("expected \"object\""))));
  // Beyond the limits, with the place in the schema.
  const std::string long_pattern = std::string(5000, 'a');
  EXPECT_THAT(
      Check(Tools(R"({"properties": {"a": {"pattern": ")" + long_pattern + R"("}}})")),
      HasError(kInvalid, StartsWith(std::string(kPath) + "at /properties/a/pattern: expected a")));
  // A tool that cannot be called does not matter.
  EXPECT_THAT(Check(Tools(R"({"uniqueItems": true})"), "f"), IsOk());
}

TEST_F(ForcedCallsTest, NothingIsCheckedForAClientThatIsGone) {
  cancellation_.Cancel();
  const absl::Status status = Check(Tools(R"({"type": "object"})")).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(ForcedCallsTest, ToolsThatAreTooMuchTogetherAreTheListsFault) {
  const auto large = [](const std::string& value) {
    return R"({"properties": {"a": {"const": ")" + value + std::string(200'000, 'x') + "\"}}}";
  };
  const std::string tools = "[" + Tool("f", large("f")) + "," + Tool("g", large("g")) + "]";
  EXPECT_THAT(Check(tools),
              HasError(kInvalid, StartsWith("chat.tools_json: expected tools with a grammar of at "
                                            "most 262144 bytes")));
  EXPECT_THAT(Check(tools, "g"), IsOk());
}

TEST_F(ForcedCallsTest, ProseTakesNoRoom) {
  const std::string large = R"({"description": ")" + std::string(200'000, 'x') + "\"}";
  EXPECT_THAT(Check("[" + Tool("f", large) + "," + Tool("g", large) + "]"), IsOk());
}

// The first refusal stays, if no tool can be blamed.
TEST(WhichToolTest, OnlyAVerdictOnOneToolReplacesTheFirst) {
  const absl::Status all = absl::InvalidArgumentError("all");
  const auto blame = [&](const absl::Status& second) {
    return WhichTool(all, 3, [&](size_t tool) {
      return tool == 0 ? absl::OkStatus() : tool == 1 ? second : absl::InvalidArgumentError("2");
    });
  };
  EXPECT_EQ(blame(absl::InvalidArgumentError("1")), absl::InvalidArgumentError("1"));
  EXPECT_EQ(blame(absl::UnimplementedError("1")), absl::UnimplementedError("1"));
  EXPECT_EQ(blame(absl::OkStatus()), absl::InvalidArgumentError("2"));
  EXPECT_EQ(blame(absl::UnavailableError("busy")), all);
  EXPECT_EQ(blame(absl::CancelledError("gone")), all);
  EXPECT_EQ(WhichTool(all, 2, [](size_t) { return absl::OkStatus(); }), all);
}

}  // namespace
}  // namespace lockstep::router
