#include "router/http/exchanges/body_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "tests/support/compress.h"

namespace lockstep::router {
namespace {

using lockstep::testing::Compressed;
using lockstep::testing::kGzip;
using lockstep::testing::kRawDeflate;
using lockstep::testing::kZlib;
using ::testing::HasSubstr;

constexpr size_t kMaxBytes = size_t{8} << 20;

struct Decoded {
  absl::Status status;
  std::string body;
  int num_turns = 0;
};

Decoded Decode(ContentCoding coding, std::string encoded, size_t max_bytes = kMaxBytes) {
  BodyDecoder decoder(coding, std::move(encoded), max_bytes, ByteBudget::Share());
  Decoded decoded;
  for (;;) {
    ++decoded.num_turns;
    const absl::StatusOr<bool> whole = decoder.Turn();
    decoded.status = whole.status();
    if (!whole.ok()) return decoded;
    if (!*whole) continue;
    decoded.body = decoder.TakeBody();
    return decoded;
  }
}

std::string Noise(size_t num_bytes) {
  std::mt19937 random(7);
  std::string noise(num_bytes, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  return noise;
}

TEST(ContentCodingTest, GzipAndDeflateAreServed) {
  const struct {
    std::string_view value;
    std::optional<ContentCoding> coding;
  } cases[] = {
      {"", ContentCoding::kIdentity},
      {"identity", ContentCoding::kIdentity},
      {" , identity ,", ContentCoding::kIdentity},
      {"gzip", ContentCoding::kGzip},
      {"GZip", ContentCoding::kGzip},
      {"x-gzip", ContentCoding::kGzip},
      {"\tgzip ", ContentCoding::kGzip},
      {"identity, gzip", ContentCoding::kGzip},
      {"deflate", ContentCoding::kDeflate},
      {"br", std::nullopt},
      {"zstd", std::nullopt},
      {"compress", std::nullopt},
      {"gzip, gzip", std::nullopt},
      {"deflate, gzip", std::nullopt},
      {"gzip, br", std::nullopt},
      {"gzip;q=1", std::nullopt},
      {"gzipx", std::nullopt},
  };
  for (const auto& [value, coding] : cases) EXPECT_EQ(ParseContentCoding(value), coding) << value;
}

TEST(BodyDecoderTest, GivesBackWhatWasCompressed) {
  for (const std::string& body :
       {std::string(), std::string("{}"), Noise(100), Noise(3'000'000), std::string(5'000'000, 'x'),
        std::string(BodyDecoder::kFirstTurnBytes, 'y'), std::string(kMaxBytes, 'z')}) {
    EXPECT_EQ(Decode(ContentCoding::kGzip, Compressed(body, kGzip)).body, body);
    EXPECT_EQ(Decode(ContentCoding::kDeflate, Compressed(body, kZlib)).body, body);
    // As some clients send it.
    EXPECT_EQ(Decode(ContentCoding::kDeflate, Compressed(body, kRawDeflate)).body, body);
  }
}

TEST(BodyDecoderTest, GzipMayHaveSeveralMembers) {
  const std::string members =
      Compressed("a", kGzip) + Compressed("", kGzip) + Compressed(std::string(100'000, 'b'), kGzip);
  EXPECT_EQ(Decode(ContentCoding::kGzip, members).body, "a" + std::string(100'000, 'b'));
}

TEST(BodyDecoderTest, WorksInTurns) {
  const Decoded small = Decode(ContentCoding::kGzip, Compressed("{}", kGzip));
  EXPECT_EQ(small.num_turns, 1);
  const Decoded large =
      Decode(ContentCoding::kGzip, Compressed(std::string(kMaxBytes, 'x'), kGzip));
  EXPECT_GE(large.num_turns, static_cast<int>(kMaxBytes / (2 * BodyDecoder::kTurnBytes)));
  // What makes nothing ends a turn too.
  std::string members;
  const std::string empty = Compressed("", kGzip);
  for (int i = 0; i < 50'000; ++i) members += empty;
  const Decoded nothing = Decode(ContentCoding::kGzip, members);
  EXPECT_TRUE(nothing.status.ok()) << nothing.status;
  EXPECT_EQ(nothing.body, "");
  EXPECT_GE(nothing.num_turns, 3);
}

TEST(BodyDecoderTest, WhatIsTooLargeEndsThere) {
  const std::string bomb = Compressed(std::string(kMaxBytes + 1, '\0'), kGzip);
  EXPECT_LT(bomb.size(), 100'000u);
  const Decoded decoded = Decode(ContentCoding::kGzip, bomb);
  EXPECT_EQ(decoded.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Message(decoded.status), HasSubstr("at most 8388608 bytes"));
  EXPECT_EQ(Decode(ContentCoding::kGzip, Compressed("abc", kGzip), 3).body, "abc");
  EXPECT_EQ(Decode(ContentCoding::kGzip, Compressed("abcd", kGzip), 3).status.code(),
            absl::StatusCode::kOutOfRange);
}

TEST(BodyDecoderTest, DamageHasAPlace) {
  const std::string good = Compressed(Noise(1000), kGzip);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 0x55;
  std::string wrong_size = good;
  wrong_size.back() ^= 1;
  const struct {
    ContentCoding coding;
    std::string encoded;
    std::string_view words;
  } cases[] = {
      {ContentCoding::kGzip, "", "the gzip data ends before its end"},
      {ContentCoding::kGzip, good.substr(0, 1), "the gzip data ends before its end"},
      {ContentCoding::kGzip, good.substr(0, 500), "the gzip data ends before its end"},
      {ContentCoding::kGzip, good.substr(0, good.size() - 1), "the gzip data ends before its end"},
      {ContentCoding::kGzip, R"({"prompt": "x"})", "the gzip data is damaged near its byte 2"},
      {ContentCoding::kGzip, Compressed("x", kZlib), "the gzip data is damaged"},
      {ContentCoding::kGzip, flipped, "the gzip data is damaged"},
      {ContentCoding::kGzip, wrong_size, "the gzip data is damaged"},
      {ContentCoding::kGzip, good + "{}", "2 bytes come behind the end of the gzip data"},
      {ContentCoding::kGzip, good + "\x1f\x8b", "the gzip data ends before its end"},
      {ContentCoding::kDeflate, "", "the deflate data ends before its end"},
      {ContentCoding::kDeflate, good, "the deflate data is damaged"},
      {ContentCoding::kDeflate, Compressed("x", kZlib) + "x", "1 bytes come behind the end"},
      {ContentCoding::kDeflate, "\x78\xbb\x01\x02\x03\x04", "the deflate data is damaged"},
  };
  for (const auto& [coding, encoded, words] : cases) {
    const Decoded decoded = Decode(coding, encoded);
    EXPECT_EQ(decoded.status.code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(Message(decoded.status), HasSubstr(std::string(words)));
  }
}

TEST(BodyDecoderTest, WhatIsMadeIsCountedBeforeIt) {
  ByteBudget budget(1 << 20);
  const std::string encoded = Compressed(std::string(4'000'000, 'x'), kGzip);
  {
    BodyDecoder decoder(ContentCoding::kGzip, encoded, kMaxBytes, ByteBudget::Share(budget));
    EXPECT_EQ(budget.held_bytes(), 0u);
    absl::StatusOr<bool> whole = decoder.Turn();
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_FALSE(*whole);
    EXPECT_GE(budget.held_bytes(), BodyDecoder::kFirstTurnBytes);
    EXPECT_LE(budget.held_bytes(), 4 * BodyDecoder::kFirstTurnBytes);
    while (whole.ok() && !*whole) whole = decoder.Turn();
    EXPECT_EQ(whole.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_LE(budget.held_bytes(), size_t{1} << 20);
  }
  EXPECT_EQ(budget.held_bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::router
