#include "router/grpc/grpc_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::router {
namespace {

using ::testing::EndsWith;
using ::testing::SizeIs;

TEST(GrpcWireTest, ContentTypesOfCalls) {
  for (const char* const type :
       {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    EXPECT_TRUE(IsGrpcContentType(type)) << type;
  }
  for (const char* const type : {"", "application/json", "application/grpc-web", "text/grpc"}) {
    EXPECT_FALSE(IsGrpcContentType(type)) << type;
  }
}

TEST(GrpcWireTest, Timeouts) {
  EXPECT_EQ(ParseGrpcTimeout("2H"), absl::Hours(2));
  EXPECT_EQ(ParseGrpcTimeout("3M"), absl::Minutes(3));
  EXPECT_EQ(ParseGrpcTimeout("99999999S"), absl::Seconds(99999999));
  EXPECT_EQ(ParseGrpcTimeout("100m"), absl::Milliseconds(100));
  EXPECT_EQ(ParseGrpcTimeout("1u"), absl::Microseconds(1));
  EXPECT_EQ(ParseGrpcTimeout("0n"), absl::ZeroDuration());
  for (const char* const text : {"", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "0x1S"}) {
    EXPECT_EQ(ParseGrpcTimeout(text), std::nullopt) << text;
  }
}

TEST(GrpcWireTest, BytesAreEncodedSoThatTheyAreHeaders) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("a"), "YQ");
  EXPECT_EQ(Base64("ab"), "YWI");
  EXPECT_EQ(Base64("abc"), "YWJj");
}

TEST(GrpcWireTest, WhatIsLongIsCutAtTheEndOfACharacter) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "\xc3\xa9";
  HeaderList fields;
  AppendStatus({.code = absl::StatusCode::kInvalidArgument,
                .message = text,
                .details = std::string(10'000, 'x')},
               fields);
  EXPECT_EQ(fields.Find("grpc-status"), "3");
  EXPECT_THAT(fields.Find("grpc-message"), SizeIs(512 * 6 + 3));
  EXPECT_THAT(std::string(fields.Find("grpc-message")), EndsWith("%C3%A9..."));
  EXPECT_EQ(fields.Find("grpc-status-details-bin"), "");
  size_t num_bytes = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    num_bytes += fields[i].first.size() + fields[i].second.size() + 32;
  }
  EXPECT_LT(num_bytes, size_t{8} << 10);
}

TEST(GrpcWireTest, AStatusIsTrailers) {
  HeaderList fields;
  AppendStatus({}, fields);
  EXPECT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields.Find("grpc-status"), "0");
  HeaderList more;
  AppendStatus({.code = absl::StatusCode::kUnavailable,
                .message = "busy",
                .details = "abc",
                .retry_after_ms = "1000",
                .accepts_identity_only = true},
               more);
  EXPECT_EQ(more.Find("grpc-status"), "14");
  EXPECT_EQ(more.Find("grpc-message"), "busy");
  EXPECT_EQ(more.Find("grpc-status-details-bin"), "YWJj");
  EXPECT_EQ(more.Find("retry-after-ms"), "1000");
  EXPECT_EQ(more.Find("grpc-accept-encoding"), "identity");
}

}  // namespace
}  // namespace lockstep::router
