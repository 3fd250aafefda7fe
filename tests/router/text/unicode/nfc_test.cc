#include "router/text/unicode/nfc.h"

#include <gtest/gtest.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "router/text/unicode/utf8.h"
#include "tests/support/processor_time.h"

namespace lockstep::router {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;
// Generous: each text takes a few hundredths of a second. Quadratic work takes minutes.
constexpr absl::Duration kLinear = absl::Seconds(3);

std::string IcuNfc(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  nfc->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                     nullptr, error);
  EXPECT_TRUE(U_SUCCESS(error));
  return out;
}

std::string Nfc(std::string_view text) {
  std::string storage;
  const absl::StatusOr<std::string_view> normal = NormalizeNfc(text, storage);
  EXPECT_TRUE(normal.ok()) << normal.status();
  return normal.ok() ? std::string(*normal) : "";
}

std::string Repeat(std::u32string_view part, size_t num_bytes) {
  std::string unit;
  for (const char32_t c : part) unit += EncodeUtf8(c);
  std::string text;
  while (text.size() + unit.size() <= num_bytes) text += unit;
  return text;
}

// Marks of many classes, marks that decompose into marks, and marks without a class that begin with
// one.
constexpr std::u32string_view kMarks =
    U"\u0300\u0301\u0308\u0323\u0327\u0328\u0331\u0334\u0338\u0345\u035C\u0360\u0340\u0341\u0343"
    U"\u0344\u0591\u05B0\u05BC\u064B\u0651\u0653\u0670\u093C\u094D\u0E38\u0E48\u0F39\u0F71\u0F72"
    U"\u0F73\u0F74\u0F75\u0F80\u0F81\u1DCE\u302A\u302E\u3099\u309A\U0001D165\U0001D16D";
// Starters: letters that compose, compositions, Hangul, characters that NFC never composes, vowel
// signs that compose with what is before them.
constexpr std::u32string_view kStarters =
    U"aeoAKnx \u00C5\u00E1\u1E69\u212B\u2126\u1100\u1161\u11A8\u11A7\uAC00\uAC01\u0915\u0958\u09C7"
    U"\u09BE\u09D7\u0B92\u0BC6\u0BBE\u0CC6\u0CC2\u0CD5\u0DD9\u0DCF\u0DCA\u1025\u102E\u2ADC\u2ADD"
    U"\u304B\u304C\uFB1D\uFB2C\uF900\u1B05\u1B35\U0001D15E\U0001D1BB\U00011099\U000110BA"
    U"\U00011131\U00011127\u6F22\uFFFD\U0001F600";

TEST(NfcTest, EqualsIcuOnRandomTexts) {
  std::mt19937 random(1);
  const auto pick = [&random](std::u32string_view from) {
    return EncodeUtf8(from[std::uniform_int_distribution<size_t>(0, from.size() - 1)(random)]);
  };
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const int num_parts = std::uniform_int_distribution<int>(1, 5)(random);
    for (int part = 0; part < num_parts; ++part) {
      if (random() % 4 != 0) text += pick(kStarters);
      if (random() % 4 == 0) text += pick(kStarters);
      // Some runs are long enough to be sorted first.
      const int num_marks = std::uniform_int_distribution<int>(0, 1 << (random() % 8))(random);
      for (int i = 0; i < num_marks; ++i) text += pick(kMarks);
    }
    ASSERT_EQ(Nfc(text), IcuNfc(text)) << "round " << round;
  }
}

TEST(NfcTest, EqualsIcuForEveryCharacterAmongMarks) {
  const std::string before = Repeat(U"\u0301\u0323", 68);
  const std::string after = Repeat(U"\u0327\u0301\u0334", 72);
  for (char32_t c = 0x80; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = "a" + before + EncodeUtf8(c) + after;
    ASSERT_EQ(Nfc(text), IcuNfc(text)) << "U+" << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(NfcTest, PiecesOfALongTextJoinAsInOne) {
  std::mt19937 random(2);
  std::string text;
  while (text.size() < 4 * kMebibyte / 10) {
    const std::u32string_view from = random() % 3 == 0 ? kMarks : kStarters;
    text += EncodeUtf8(from[random() % from.size()]);
  }
  EXPECT_EQ(Nfc(text), IcuNfc(text));
}

TEST(NfcTest, NormalTextIsNotCopied) {
  std::string storage;
  const std::string text = Repeat(U"\u6F22\u00E9a", 300'000);
  EXPECT_EQ(NormalizeNfc(text, storage)->data(), text.data());
  const std::string marks = "a" + Repeat(U"\u0334", 200);
  EXPECT_EQ(*NormalizeNfc(marks, storage), marks);
}

TEST(NfcTest, TakesLinearTime) {
  const std::vector<std::u32string_view> parts = {
      U"\u0301",                    // one class
      U"\u0301\u0323",              // two classes in turn
      U"\u0345\u0301\u0323\u0334",  // descending classes
      U"\u0344\u0334",              // one decomposes
      U"\u0F73",                    // decomposes into two classes
      U"\u0F71\u0F72\u0F74",
      U"\u1161",  // Hangul vowels, which compose with what is before them
      U"\u1100\u1161\u11A8",
      U"\u09BE",
      U"\u0BC6\u0BBE",
      U"\u0CC6\u0CC2\u0CD5",
      U"a\u0301\u0323",
      U"\u1E69\u0334",
      U"\uAC00\u11A8\u0334\u0301",
      U"\u3099\u304B",
      U"\uFB2C",
      U"\U0001D165\U0001D16D",
      U"\u0338\u2ADC",
  };
  for (const std::u32string_view part : parts) {
    const std::string text = "a" + Repeat(part, kMebibyte);
    const absl::Duration begin = ProcessorTime();
    Nfc(text);
    EXPECT_LT(ProcessorTime() - begin, kLinear)
        << "U+" << std::hex << static_cast<uint32_t>(part[0]);
  }
  // All marks of one class, then all of a lower one: the most that insertion can move.
  const std::string text = Repeat(U"\u0301", kMebibyte / 2) + Repeat(U"\u0323", kMebibyte / 2);
  const absl::Duration begin = ProcessorTime();
  EXPECT_EQ(Nfc(text), Repeat(U"\u0323", kMebibyte / 2) + Repeat(U"\u0301", kMebibyte / 2));
  EXPECT_LT(ProcessorTime() - begin, kLinear);
}

TEST(NfcTest, GivesUpWhenNobodyWantsTheText) {
  CancelFlag cancellation;
  std::string storage;
  EXPECT_TRUE(NormalizeNfc("e\u0301", storage, &cancellation).ok());
  cancellation.Cancel();
  EXPECT_EQ(NormalizeNfc("e\u0301", storage, &cancellation).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::router
