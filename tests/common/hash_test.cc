#include "common/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

namespace lockstep {
namespace {

TEST(HashTest, IsTheStableXxh3) {
  // Fingerprints are compared between processes and builds, so the function must never change. The
  // first value is the one that the specification of XXH3 gives for an empty input.
  EXPECT_EQ(Hash64(""), 0x2d06800538d394c2u);
  EXPECT_NE(Hash64("", 1), Hash64(""));
}

TEST(HashTest, TextAndBytesAgree) {
  const std::array<std::byte, 3> bytes = {std::byte{'a'}, std::byte{0}, std::byte{'b'}};
  EXPECT_EQ(Hash64(bytes, 7), Hash64(std::string_view("a\0b", 3), 7));
}

TEST(HashTest, DependsOnEveryByteLengthAndSeed) {
  std::set<uint64_t> seen;
  std::string text(100, 'x');
  seen.insert(Hash64(text));
  for (char& c : text) {
    c = 'y';
    seen.insert(Hash64(text));
    c = 'x';
  }
  seen.insert(Hash64(text.substr(1)));
  seen.insert(Hash64(text, 1));
  EXPECT_EQ(seen.size(), 103u);
}

TEST(HashTest, CombineDependsOnTheOrder) {
  EXPECT_EQ(CombineHashes(1, 2), CombineHashes(1, 2));
  EXPECT_NE(CombineHashes(1, 2), CombineHashes(2, 1));
  EXPECT_NE(CombineHashes(0, 0), 0u);
}

}  // namespace
}  // namespace lockstep
