// A million random operations on a tiny vocabulary and tiny pools, with up to three steps in
// flight, late ends, cancellations, stop strings, deadlines, failed rows, refused steps, lost
// workers and lying ones. scheduler_world.h says what is checked after each of them. Flags:
// --operations=N
// --seed=S.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>

#include "tests/router/core/properties/scheduler_world.h"

namespace lockstep::router::testing {

uint64_t num_operations = LOCKSTEP_PROPERTY_OPERATIONS;
uint64_t first_seed = 1;

namespace {

constexpr uint64_t kOperationsPerWorld = 400;

// Each kind of event must have happened at least once in so many operations; a generator that stops
// reaching a case fails here.
struct Expected {
  const char* what;
  uint64_t once_in;
};
constexpr Expected kExpected[] = {
    {"requests", 100},
    {"requests with n > 1", 300},
    {"requests with priority", 100},
    {"plans with 0 in flight", 20},
    {"plans with 1 in flight", 50},
    {"plans with 2 in flight", 100},
    {"plans with fenced blocks", 500},
    {"prefix hits", 200},
    {"prefix hits under a salt", 1000},
    {"restarts", 500},
    {"preemptions", 1000},
    {"inert rows", 500},
    {"wasted rows", 200},
    {"rows that sample nothing", 50},
    {"steps of several iterations", 1000},
    {"repeated steps", 20},
    {"slots released and started in one step", 100},
    {"blocks sent before they are needed", 100},
    {"refused steps", 2000},
    {"refused steps behind a refusal", 2000},
    {"resyncs", 2000},
    {"rolled back sequences", 1000},
    {"failed rows", 2000},
    {"steps without rows", 500},
    {"failed by other bits", 5000},
    {"workers drained", 1000},
    {"workers that left with work waiting", 2000},
    {"workers lost", 10000},
    {"workers lost with steps in flight", 2000},
    {"contradictions: wrong step", 10000},
    {"contradictions: inert or not", 20000},
    {"contradictions: more tokens than planned", 20000},
    {"contradictions: a slot twice or unknown", 20000},
    {"cancelled before admission", 1000},
    {"cancelled after admission", 10000},
    {"cancelled with steps in flight", 1000},
    {"stop strings", 3000},
    {"stop strings at once", 1000},
    {"deadlines passed", 3000},
    {"workers killed by a request", 4000},
    {"failed after killing workers", 40000},
    {"unserved without a worker", 40000},
    {"unserved on a worker", 40000},
    {"prompt log-probabilities", 1000},
    {"refused: cannot fit", 300},
    {"refused: queue full", 200},
    {"refused: first token too late", 200},
    {"refused: the deadline is too near", 20000},
    {"ended: cancelled", 300},
    {"ended: length", 200},
    {"ended: stop token", 300},
    {"ended: stop string", 500},
    {"failed: ABORTED", 2000},
    {"failed: DEADLINE_EXCEEDED", 2000},
    {"failed: INTERNAL", 40000},
    {"failed: INVALID_ARGUMENT", 3000},
    {"failed: RESOURCE_EXHAUSTED", 20000},
    {"failed: UNAVAILABLE", 2000},
};

// Where a worker has a second group of KV, with a window that is short and often too small.
constexpr Expected kExpectedWithWindow[] = {
    {"requests", 100},
    {"plans with 2 in flight", 100},
    {"plans with fenced blocks", 500},
    {"prefix hits", 300},
    {"hits with blocks behind the window", 1000},
    {"chunks that a window grew for", 1000},
    {"restarts", 500},
    {"preemptions", 1000},
    {"wasted rows", 200},
    {"steps of several iterations", 1000},
    {"blocks sent before they are needed", 500},
    {"refused steps", 2000},
    {"rolled back sequences", 1000},
    {"failed rows", 2000},
    {"workers drained", 1000},
    {"workers lost with steps in flight", 2000},
    {"cancelled with steps in flight", 1000},
    {"failed after killing workers", 40000},
    {"ended: length", 200},
    {"ended: stop token", 300},
};

// Where workers draft.
constexpr Expected kExpectedWithDrafts[] = {
    {"requests", 100},
    {"plans with 2 in flight", 100},
    {"plans with fenced blocks", 500},
    {"drafts that were kept", 50},
    {"drafts that were wrong", 50},
    {"rows that wait", 200},
    {"prefix hits", 300},
    {"restarts", 500},
    {"preemptions", 1000},
    {"wasted rows", 200},
    {"repeated steps", 50},
    {"refused steps", 2000},
    {"rolled back sequences", 1000},
    {"failed rows", 2000},
    {"workers drained", 1000},
    {"workers lost with steps in flight", 2000},
    {"cancelled with steps in flight", 1000},
    {"contradictions: more tokens than planned", 20000},
    {"ended: length", 200},
    {"ended: stop token", 300},
};

void RunWorlds(SchedulerWorld::Kind kind, EventCounts& counts) {
  uint64_t num_done = 0;
  for (uint64_t seed = first_seed; num_done < num_operations; ++seed) {
    SchedulerWorld world(seed, counts, kind);
    for (uint64_t i = 0; i < kOperationsPerWorld && num_done < num_operations; ++i, ++num_done) {
      const absl::Status status = world.RandomOperation();
      ASSERT_TRUE(status.ok()) << "seed " << seed << ", operation " << i << ": "
                               << status.ToString();
    }
    const absl::Status drained = world.Drain();
    ASSERT_TRUE(drained.ok()) << "seed " << seed << ", draining: " << drained.ToString();
  }
}

void ExpectCounts(EventCounts& counts, std::span<const Expected> expected) {
  for (const Expected& event : expected) {
    EXPECT_GE(counts[event.what], num_operations / event.once_in) << event.what;
  }
}

TEST(SchedulerPropertyTest, EveryRequestGetsTheTextOfItsLoneRun) {
  EventCounts counts;
  RunWorlds({}, counts);
  for (const auto& [what, count] : counts) RecordProperty(what, static_cast<int>(count));
  ExpectCounts(counts, kExpected);
}

TEST(SchedulerPropertyTest, SoItDoesWithAWindowBesideAllTokens) {
  EventCounts counts;
  RunWorlds({.has_window = true}, counts);
  for (const auto& [what, count] : counts) RecordProperty(what, static_cast<int>(count));
  ExpectCounts(counts, kExpectedWithWindow);
}

TEST(SchedulerPropertyTest, SoItDoesWithDrafts) {
  EventCounts counts;
  RunWorlds({.has_drafts = true}, counts);
  for (const auto& [what, count] : counts) RecordProperty(what, static_cast<int>(count));
  ExpectCounts(counts, kExpectedWithDrafts);
}

TEST(SchedulerPropertyTest, SoItDoesWithDraftsAndAWindow) {
  EventCounts counts;
  RunWorlds({.has_window = true, .has_drafts = true}, counts);
  for (const auto& [what, count] : counts) RecordProperty(what, static_cast<int>(count));
  ExpectCounts(counts, kExpectedWithDrafts);
}

TEST(SchedulerPropertyTest, EqualEventsGiveEqualPlans) {
  const auto digest = [](uint64_t seed, SchedulerWorld::Kind kind) {
    EventCounts counts;
    SchedulerWorld world(seed, counts, kind);
    for (uint64_t i = 0; i < kOperationsPerWorld; ++i) EXPECT_TRUE(world.RandomOperation().ok());
    return world.plan_digest();
  };
  for (uint64_t seed = first_seed; seed < first_seed + 40; ++seed) {
    for (const int bits : {0, 1, 2, 3}) {
      const SchedulerWorld::Kind kind = {.has_window = (bits & 1) != 0,
                                         .has_drafts = (bits & 2) != 0};
      EXPECT_EQ(digest(seed, kind), digest(seed, kind)) << "seed " << seed;
      EXPECT_NE(digest(seed, kind), digest(seed + 1, kind)) << "seed " << seed;
    }
  }
}

bool ParseFlag(std::string_view argument, std::string_view prefix, uint64_t& value) {
  if (!argument.starts_with(prefix)) return false;
  argument.remove_prefix(prefix.size());
  const char* const end = argument.data() + argument.size();
  return std::from_chars(argument.data(), end, value).ptr == end;
}

}  // namespace

int RunAll(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (ParseFlag(argv[i], "--operations=", num_operations)) continue;
    if (ParseFlag(argv[i], "--seed=", first_seed)) continue;
    ADD_FAILURE() << "unknown flag " << argv[i];
    return 2;
  }
  return RUN_ALL_TESTS();
}

}  // namespace lockstep::router::testing

int main(int argc, char** argv) { return lockstep::router::testing::RunAll(argc, argv); }
