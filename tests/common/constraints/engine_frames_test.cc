#include "common/constraints/engine_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/caged/frame_io.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string Number(uint32_t value) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
  return out;
}
std::string String(const std::string& text) {
  return Number(static_cast<uint32_t>(text.size())) + text;
}
std::string PayloadOf(const std::string& frame) {
  EXPECT_EQ(ReadLength(frame), frame.size() - kFrameHeaderBytes);
  return frame.substr(kFrameHeaderBytes);
}
std::string Answer(char kind, const std::string& text) { return kind + String(text); }

// What engine/frames.py reads.
TEST(EngineFramesTest, JobsAreWrittenAsTheEngineReadsThem) {
  const std::vector<VocabularyToken> vocabulary = {
      {.bytes = "a"}, {.bytes = "<s>", .special = true}, {}};
  EXPECT_EQ(PayloadOf(VocabularyFrame(vocabulary)),
            "V" + Number(1) + Number(1) + Number(3) + String("a") + String("<s>") + String(""));
  const Constraint regex = {.kind = ConstraintKind::kRegex, .text = "a+"};
  EXPECT_EQ(PayloadOf(CheckFrame(regex)), "CR" + String("a+"));
  const std::vector<TokenId> ends = {5};
  const std::vector<TokenId> tokens = {1, 70000};
  EXPECT_EQ(PayloadOf(BeginFrame(3, regex, ends, tokens)), "B" + Number(3) + "R" + String("a+") +
                                                               Number(1) + Number(5) + Number(2) +
                                                               Number(1) + Number(70000));
  EXPECT_EQ(PayloadOf(MaskFrame(3, tokens)),
            "M" + Number(3) + Number(2) + Number(1) + Number(70000));
  EXPECT_EQ(PayloadOf(ReleaseFrame(9)), "R" + Number(9));
}

TEST(EngineFramesTest, AnswersAreRead) {
  EXPECT_EQ(ParseEngineAnswer(Answer('K', "text")).value_or("none"), "text");
  EXPECT_THAT(ParseEngineAnswer(Answer('E', "no")), HasError(kInvalid, "no"));
  // A reason goes to clients and into messages: valid UTF-8 on one line.
  EXPECT_THAT(ParseEngineAnswer(Answer('E', "a\nb\xFF \xC3\xA9\x1b")),
              HasError(kInvalid, "a?b? \xC3\xA9?"));
}

TEST(EngineFramesTest, OtherBytesAreNoAnswer) {
  const std::string answer = Answer('K', "text");
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_TRUE(absl::IsInternal(ParseEngineAnswer(answer.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsInternal(ParseEngineAnswer(answer + "x").status()));
  EXPECT_TRUE(absl::IsInternal(ParseEngineAnswer(Answer('E', std::string(600, 'x'))).status()));
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = answer;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    ParseEngineAnswer(bytes).status().IgnoreError();
  }
}

TEST(EngineFramesTest, MasksHaveTheSizeOfTheVocabulary) {
  TokenMask mask;
  const std::string bytes("\1\x05\0\0\0\xFF\xFF\xFF\xFF", 9);
  ASSERT_THAT(ParseMask(bytes, 34, mask), IsOk());
  EXPECT_TRUE(mask.ends_only);
  EXPECT_TRUE(mask.Allows(0) && mask.Allows(2) && mask.Allows(33));
  EXPECT_FALSE(mask.Allows(1));
  // Bits behind the vocabulary are no tokens.
  EXPECT_EQ(mask.words[1], 3u);
  ASSERT_THAT(ParseMask(bytes, 64, mask), IsOk());
  EXPECT_EQ(mask.words[1], UINT32_MAX);
  EXPECT_THAT(ParseMask(bytes, 32, mask), HasError(absl::StatusCode::kInternal, HasSubstr("9")));
  EXPECT_THAT(ParseMask(bytes, 65, mask), HasError(absl::StatusCode::kInternal, HasSubstr("13")));
  EXPECT_THAT(ParseMask("", 34, mask), HasError(absl::StatusCode::kInternal, HasSubstr("0")));
}

TEST(EngineFramesTest, TheLongestAnswersFit) {
  for (const uint32_t vocab_size : {1u, 49152u, 151936u}) {
    EXPECT_GE(MaxEngineAnswerBytes(vocab_size), 1 + 4 + 1 + 4 * ((vocab_size + 31) / 32));
    EXPECT_GE(MaxEngineAnswerBytes(vocab_size), 1 + 4 + kMaxCagedErrorBytes);
  }
}

}  // namespace
}  // namespace lockstep
