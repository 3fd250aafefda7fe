#include "router/text/tokenizer/bpe_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/model_files/tokenizer/byte_alphabet.h"

namespace lockstep::router {
namespace {

struct Merge {
  std::string left;
  std::string right;
};

// A model over the letters a to d with random merges, and the same algorithm written down plainly.
struct RandomModel {
  explicit RandomModel(std::mt19937& rng) {
    for (const char* letter : {"a", "b", "c", "d"}) Add(letter);
    while (merges.size() < 24) {
      Merge merge{tokens[rng() % tokens.size()], tokens[rng() % tokens.size()]};
      const std::string joined = merge.left + merge.right;
      if (joined.size() > 9) continue;
      if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) Add(joined);
      EXPECT_TRUE(builder.AddMerge(merge.left, merge.right).ok());
      merges.push_back(std::move(merge));
    }
  }

  void Add(const std::string& text) {
    EXPECT_TRUE(builder.AddToken(static_cast<TokenId>(tokens.size()), text).ok());
    tokens.push_back(text);
  }

  std::vector<std::string> Plainly(std::string_view text) const {
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    while (true) {
      size_t best_rank = 0;
      size_t best = parts.size();
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        for (size_t rank = merges.size(); rank > 0;
             --rank) {  // a pair seen again takes the later rank
          const Merge& merge = merges[rank - 1];
          if (merge.left != parts[i] || merge.right != parts[i + 1]) continue;
          if (best == parts.size() || rank < best_rank) {
            best = i;
            best_rank = rank;
          }
          break;
        }
      }
      if (best == parts.size()) return parts;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
  }

  BpeModel::Builder builder;
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
};

std::vector<TokenId> Encode(const BpeModel& model, std::string_view text) {
  std::vector<TokenId> ids;
  EXPECT_EQ(model.EncodePiece(text, ids), std::nullopt);
  return ids;
}

TEST(BpeModelTest, EqualsThePlainAlgorithmOnShortAndLongPieces) {
  std::mt19937 rng(3);
  for (int round = 0; round < 60; ++round) {
    const RandomModel random(rng);
    const BpeModel model = random.builder.Build({});
    for (int i = 0; i < 60; ++i) {
      std::string text;
      const size_t length = 1 + rng() % (i % 4 == 0 ? 150 : 12);
      const size_t num_letters = 1 + rng() % 4;
      while (text.size() < length) text += static_cast<char>('a' + rng() % num_letters);
      std::vector<std::string> parts;
      for (const TokenId id : Encode(model, text)) parts.push_back(random.tokens[id]);
      ASSERT_EQ(parts, random.Plainly(text)) << text;
    }
  }
}

TEST(BpeModelTest, OneHugePieceStaysNearLinear) {
  std::mt19937 rng(5);
  BpeModel::Builder builder;
  std::string token = "a";
  ASSERT_TRUE(builder.AddToken(0, token).ok());
  for (TokenId id = 1; id <= 7; ++id) {
    ASSERT_TRUE(builder.AddToken(id, token + token).ok());
    ASSERT_TRUE(builder.AddMerge(token, token).ok());
    token += token;
  }
  const std::vector<TokenId> ids = Encode(builder.Build({}), std::string(1 << 20, 'a'));
  EXPECT_EQ(ids, std::vector<TokenId>((1 << 20) / 128, 7));
}

TEST(BpeModelTest, IgnoreMergesTakesAWholePieceThatIsAToken) {
  BpeModel::Builder builder;
  for (const auto& [id, text] : {std::pair<TokenId, const char*>{0, "a"}, {1, "b"}, {2, "ab"}}) {
    ASSERT_TRUE(builder.AddToken(id, text).ok());
  }
  EXPECT_EQ(Encode(builder.Build({}), "ab"), (std::vector<TokenId>{0, 1}));
  const BpeModel model = builder.Build({.ignore_merges = true});
  EXPECT_EQ(Encode(model, "ab"), (std::vector<TokenId>{2}));
  EXPECT_EQ(Encode(model, "aba"), (std::vector<TokenId>{0, 1, 0}));
}

TEST(BpeModelTest, BytesWithoutATokenAreReportedOrUnknown) {
  BpeModel::Builder builder;
  ASSERT_TRUE(builder.AddToken(0, "a").ok());
  ASSERT_TRUE(builder.AddToken(1, "?").ok());
  std::vector<TokenId> ids;
  EXPECT_EQ(builder.Build({}).EncodePiece("axy", ids), std::optional<uint8_t>('x'));
  EXPECT_EQ(Encode(builder.Build({.unknown_id = 1}), "axya"), (std::vector<TokenId>{0, 1, 1, 0}));
  EXPECT_EQ(Encode(builder.Build({.unknown_id = 1, .fuse_unknown = true}), "axyax"),
            (std::vector<TokenId>{0, 1, 0, 1}));
}

TEST(BpeModelTest, RefusesDefinitionsThatDoNotHoldTogether) {
  BpeModel::Builder builder;
  ASSERT_TRUE(builder.AddToken(0, "a").ok());
  EXPECT_FALSE(builder.AddToken(0, "b").ok());
  EXPECT_FALSE(builder.AddToken(1, "a").ok());
  EXPECT_FALSE(builder.AddToken(1, "").ok());
  EXPECT_FALSE(builder.AddMerge("a", "a").ok());  // no "aa"
  EXPECT_FALSE(builder.AddMerge("a", "b").ok());
}

TEST(ByteAlphabetTest, SpellsEveryByteOnceAndReadsItBack) {
  std::set<std::string> spellings;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelled = ByteToAlphabet(static_cast<uint8_t>(byte));
    spellings.insert(spelled);
    std::string bytes;
    ASSERT_TRUE(AlphabetToBytes(spelled, bytes));
    ASSERT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(spellings.size(), 256u);
  EXPECT_EQ(ByteToAlphabet(' '), "\u0120");
  EXPECT_EQ(ByteToAlphabet('\n'), "\u010a");
  EXPECT_EQ(ByteToAlphabet(0xAD), "\u0143");
  std::string bytes;
  EXPECT_FALSE(AlphabetToBytes("a b", bytes));
  EXPECT_FALSE(AlphabetToBytes("\u0144", bytes));
  EXPECT_FALSE(AlphabetToBytes("\xFF", bytes));
}

}  // namespace
}  // namespace lockstep::router
