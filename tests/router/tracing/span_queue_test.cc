#include "router/tracing/span_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

#include "common/runtime/named_thread.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// No test waits for it.
constexpr absl::Duration kLong = absl::Hours(1);

class SpanQueueTest : public ::testing::Test {
 protected:
  static Span Named(std::string name) {
    Span span;
    span.name = std::move(name);
    return span;
  }
  static std::vector<std::string> NamesOf(const std::vector<Span>& spans) {
    std::vector<std::string> names;
    for (const Span& span : spans) names.push_back(span.name);
    return names;
  }
  double Dropped(SpanDrop why) const {
    return metrics_.dropped_total.at(static_cast<size_t>(why))->Value();
  }

  prometheus::Registry registry_;
  SpanMetrics metrics_{registry_, "a-model"};
};

TEST_F(SpanQueueTest, AFullBatchWaitsForNothing) {
  SpanQueue queue({.max_spans = 9, .max_batch_spans = 2, .max_wait = kLong}, metrics_);
  for (const char* name : {"a", "b", "c", "d", "e"}) queue.Push(Named(name));
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("c", "d"));
  queue.Close();
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("e"));
  EXPECT_THAT(NamesOf(queue.TakeBatch()), IsEmpty());
}

TEST_F(SpanQueueTest, ABatchThatIsNotFullComesAfterItsWait) {
  SpanQueue queue({.max_spans = 9, .max_batch_spans = 5, .max_wait = absl::Milliseconds(1)},
                  metrics_);
  queue.Push(Named("a"));
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("a"));
}

TEST_F(SpanQueueTest, TheBatchThatFillsUpWakesItsReader) {
  SpanQueue queue({.max_spans = 9, .max_batch_spans = 3, .max_wait = kLong}, metrics_);
  std::vector<Span> batch;
  NamedThread reader("reader", [&] { batch = queue.TakeBatch(); });
  for (const char* name : {"a", "b", "c"}) queue.Push(Named(name));
  reader.join();
  EXPECT_THAT(NamesOf(batch), ElementsAre("a", "b", "c"));
}

TEST_F(SpanQueueTest, WhatDoesNotFitIsDroppedAndCounted) {
  SpanQueue queue({.max_spans = 2, .max_batch_spans = 2, .max_wait = kLong}, metrics_);
  for (const char* name : {"a", "b", "c", "d", "e"}) queue.Push(Named(name));
  EXPECT_EQ(Dropped(SpanDrop::kQueueFull), 3);
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("a", "b"));
  queue.Push(Named("f"));
  queue.Close();
  queue.Push(Named("g"));
  EXPECT_EQ(Dropped(SpanDrop::kShutdown), 1);
  EXPECT_THAT(NamesOf(queue.TakeBatch()), ElementsAre("f"));
}

TEST_F(SpanQueueTest, CloseWakesAReaderThatHasNothing) {
  SpanQueue queue({.max_spans = 2, .max_batch_spans = 2, .max_wait = kLong}, metrics_);
  std::vector<Span> batch = {Span()};
  NamedThread reader("reader", [&] { batch = queue.TakeBatch(); });
  queue.Close();
  reader.join();
  EXPECT_THAT(batch, IsEmpty());
}

TEST_F(SpanQueueTest, DropAllCounts) {
  SpanQueue queue({.max_spans = 4, .max_batch_spans = 4, .max_wait = kLong}, metrics_);
  queue.Push(Named("a"));
  queue.Push(Named("b"));
  queue.Close();
  queue.DropAll();
  EXPECT_EQ(Dropped(SpanDrop::kShutdown), 2);
  EXPECT_THAT(queue.TakeBatch(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::router
