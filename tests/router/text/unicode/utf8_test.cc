#include "router/text/unicode/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lockstep::router {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// UTF-8 by enumeration: every character's encoding and every proper beginning of one.
class Utf8Oracle {
 public:
  Utf8Oracle() {
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      const std::string encoded = EncodeUtf8(c);
      if (encoded.size() < 4) characters_.insert(encoded);
      for (size_t n = 1; n < encoded.size(); ++n) beginnings_.insert(encoded.substr(0, n));
    }
  }

  // Longest beginnings first: the definition of a maximal subpart, word for word.
  std::string Lossy(std::string_view bytes) const {
    std::string out;
    while (!bytes.empty()) {
      size_t length = 0;
      for (size_t n = 1; n <= 4 && n <= bytes.size(); ++n) {
        const std::string prefix(bytes.substr(0, n));
        if (IsCharacter(prefix)) {
          out += prefix;
          length = n;
          break;
        }
        if (!beginnings_.contains(prefix)) break;
        length = n;
        if (n == bytes.size()) break;
      }
      const bool valid = length > 0 && IsCharacter(std::string(bytes.substr(0, length)));
      if (!valid) out += kReplacement;
      bytes.remove_prefix(std::max<size_t>(length, 1));
    }
    return out;
  }

 private:
  bool IsCharacter(const std::string& bytes) const {
    if (bytes.size() < 4) return characters_.contains(bytes);
    return beginnings_.contains(bytes.substr(0, 3)) && static_cast<uint8_t>(bytes[3]) >= 0x80 &&
           static_cast<uint8_t>(bytes[3]) < 0xC0;
  }

  std::set<std::string> characters_;  // of at most 3 bytes
  std::set<std::string> beginnings_;
};

std::string RandomBytes(std::mt19937& rng, size_t length) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kInteresting =
      "\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF"
      "\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"sv;
  std::string bytes;
  for (size_t i = 0; i < length; ++i) {
    bytes += rng() % 4 == 0 ? static_cast<char>(rng()) : kInteresting[rng() % kInteresting.size()];
  }
  return bytes;
}

TEST(Utf8Test, DecodesWhatItEncodes) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = "x" + EncodeUtf8(c);
    const DecodedChar decoded = DecodeUtf8(text, 1);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size() - 1);
    ASSERT_EQ(PreviousCharOffset(text, text.size()), 1u);
    ASSERT_EQ(FindInvalidUtf8(text), std::nullopt);
  }
}

TEST(Utf8Test, NamesTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("plain ascii that is longer than a word"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("abc\xFF"), 3u);
  EXPECT_EQ(FindInvalidUtf8("0123456789\xE2\x82"), 10u);   // ends early
  EXPECT_EQ(FindInvalidUtf8("\xED\xA0\x80"), 0u);          // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u);              // overlong
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);      // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xC3\xA9\x80"), 4u);  // stray continuation
}

TEST(Utf8Test, LossyDecodingFollowsTheDefinition) {
  const Utf8Oracle oracle;
  std::mt19937 rng(7);
  for (int round = 0; round < 20'000; ++round) {
    const std::string bytes = RandomBytes(rng, 1 + rng() % 12);
    std::string pending;
    std::string whole;
    AppendLossyUtf8(bytes, pending, whole);
    FlushLossyUtf8(pending, whole);
    ASSERT_EQ(whole, oracle.Lossy(bytes));
    ASSERT_EQ(FindInvalidUtf8(bytes).has_value(), whole != bytes);
  }
}

TEST(Utf8Test, LossyDecodingDoesNotDependOnThePieces) {
  std::mt19937 rng(8);
  for (int round = 0; round < 20'000; ++round) {
    const std::string bytes = RandomBytes(rng, 1 + rng() % 12);
    std::string whole;
    std::string pending;
    AppendLossyUtf8(bytes, pending, whole);
    FlushLossyUtf8(pending, whole);
    std::string joined;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t length = std::min<size_t>(1 + rng() % 3, bytes.size() - begin);
      AppendLossyUtf8(std::string_view(bytes).substr(begin, length), pending, joined);
      ASSERT_LE(pending.size(), 3u);
      begin += length;
    }
    FlushLossyUtf8(pending, joined);
    ASSERT_EQ(joined, whole);
  }
}

}  // namespace
}  // namespace lockstep::router
