#include "router/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <string>

#include "router/tracing/sampling.h"

namespace lockstep::router {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParentId[] = "00f067aa0ba902b7";

std::string Header(const std::string& version = "00", const std::string& trace = kTrace,
                   const std::string& parent = kParentId, const std::string& flags = "01") {
  return version + "-" + trace + "-" + parent + "-" + flags;
}

TEST(TraceContextTest, ReadsAllParts) {
  const auto context = ParseTraceparent(Header());
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(HexOf(context->trace_id), kTrace);
  EXPECT_EQ(HexOf(context->parent_span_id), kParentId);
  EXPECT_TRUE(context->sampled);
}

TEST(TraceContextTest, OnlyTheLowestFlagSaysSampled) {
  for (const auto& [flags, sampled] :
       {std::pair("00", false), {"01", true}, {"02", false}, {"03", true}, {"fe", false}}) {
    const auto context = ParseTraceparent(Header("00", kTrace, kParentId, flags));
    ASSERT_TRUE(context.has_value()) << flags;
    EXPECT_EQ(context->sampled, sampled) << flags;
  }
}

TEST(TraceContextTest, LaterVersionsMayHaveMoreBehindADash) {
  EXPECT_TRUE(ParseTraceparent(Header("01")).has_value());
  EXPECT_TRUE(ParseTraceparent(Header("cc") + "-what-the-future-brings").has_value());
  EXPECT_TRUE(ParseTraceparent(Header("fe") + "-").has_value());
  EXPECT_FALSE(ParseTraceparent(Header("01") + ".more").has_value());
  EXPECT_FALSE(ParseTraceparent(Header("00") + "-more").has_value());
  EXPECT_FALSE(ParseTraceparent(Header("00") + "-").has_value());
}

TEST(TraceContextTest, WhatIsNotValidIsNothing) {
  const std::string upper = "4BF92F3577B34DA6A3CE929D0E0E4736";
  for (const std::string& bad :
       {std::string(), std::string("00"), Header("ff"), Header("0g"), Header("0"), Header("0A"),
        Header("00", upper), Header("00", std::string(32, '0')),
        Header("00", kTrace, std::string(16, '0')), Header("00", kTrace, "00F067AA0BA902B7"),
        Header("00", kTrace, kParentId, "0x"), Header("00", kTrace, kParentId, "1"),
        Header("00", std::string(kTrace) + "0"), " " + Header(), Header() + " ",
        std::string(55, '-'), std::string(55, '0'), std::string(55, '\0'),
        std::string(55, '\xff')}) {
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
  // Every dash counts.
  for (const size_t at : {2, 35, 52}) {
    std::string bad = Header();
    bad[at] = '_';
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
}

TEST(TraceContextTest, EveryPrefixIsRefused) {
  const std::string header = Header();
  for (size_t size = 0; size < header.size(); ++size) {
    EXPECT_FALSE(ParseTraceparent(std::string_view(header).substr(0, size)).has_value()) << size;
  }
}

TEST(TraceContextTest, TraceStates) {
  for (const std::string& good :
       {std::string(), std::string("a=1"), std::string("a=1,b=2"), std::string("a=1 , b=2\t,,c=3"),
        std::string("tenant@vendor=x y"), std::string("0a/b*c_d-e=!\"#~"),
        "k=" + std::string(256, 'v'), std::string(256, 'k') + "=v"}) {
    EXPECT_TRUE(IsTraceState(good)) << good;
  }
  std::string many = "k=v";
  for (int i = 1; i < 33; ++i) many += ",k=v";
  for (const std::string& bad :
       {std::string("a"), std::string("=1"), std::string("a="), std::string("A=1"),
        std::string("a=1=2"), std::string("a b=1"), std::string("a=\x7f"),
        std::string("a=\xc3\xa4"), std::string("a=\n"), std::string("-a=1"),
        "k=" + std::string(257, 'v'), std::string(257, 'k') + "=v", std::string(600, ','), many}) {
    EXPECT_FALSE(IsTraceState(bad)) << bad;
  }
}

TEST(TraceContextTest, ABadTraceStateIsDroppedAlone) {
  EXPECT_EQ(ParseTraceContext(Header(), "a=1")->trace_state, "a=1");
  EXPECT_EQ(ParseTraceContext(Header(), "?")->trace_state, "");
  EXPECT_FALSE(ParseTraceContext("?", "a=1").has_value());
}

TEST(SamplingTest, FollowsTheLast56Bits) {
  TraceId low = {};
  low.fill(0xff);
  for (size_t i = 9; i < low.size(); ++i) low[i] = 0;
  TraceId high = {};
  for (size_t i = 9; i < high.size(); ++i) high[i] = 0xff;
  EXPECT_FALSE(IsSampled(low, 0));
  EXPECT_FALSE(IsSampled(high, 0));
  EXPECT_TRUE(IsSampled(low, 1));
  EXPECT_TRUE(IsSampled(high, 1));
  EXPECT_FALSE(IsSampled(low, 0.999));
  EXPECT_TRUE(IsSampled(high, 0.001));
  TraceId half = {};
  half[9] = 0x80;
  EXPECT_TRUE(IsSampled(half, 0.5));
  half[9] = 0x7f;
  EXPECT_FALSE(IsSampled(half, 0.5));
}

}  // namespace
}  // namespace lockstep::router
