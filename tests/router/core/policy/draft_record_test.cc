#include "router/core/policy/draft_record.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

DraftRecord NewRecord() {
  DraftRecord record;
  record.Begin(DraftOdds::Unknown());
  return record;
}

TEST(DraftRecordTest, BeginsWithWhatIsKnownOfOthers) {
  DraftRecord record;
  EXPECT_FALSE(record.begun());
  DraftOdds prior = DraftOdds::Unknown();
  prior.right[2] = 0.25F;
  record.Begin(prior);
  EXPECT_TRUE(record.begun());
  EXPECT_EQ(record.odds().right[2], 0.25F);
}

TEST(DraftRecordTest, EachPlaceLearnsFromTheRoundsThatReachIt) {
  DraftRecord record = NewRecord();
  const DraftOdds before = record.odds();
  // Three of four drafts made; the second is wrong.
  record.Observe({.limit = 4, .num_made = 3, .num_right = 1}, 2);
  const DraftOdds& odds = record.odds();
  EXPECT_EQ(odds.made[0], 1);
  EXPECT_EQ(odds.made[2], 1);
  EXPECT_LT(odds.made[3], before.made[3]) << "it was allowed and not made";
  EXPECT_EQ(odds.made[4], before.made[4]) << "it was not allowed";
  EXPECT_GT(odds.right[0], before.right[0]);
  EXPECT_LT(odds.right[1], before.right[1]);
  EXPECT_EQ(odds.right[2], before.right[2]) << "nobody knows";
}

TEST(DraftRecordTest, MeansApproachTheTruth) {
  DraftRecord record = NewRecord();
  for (int i = 0; i < 120; ++i) record.Observe({.limit = 2, .num_made = 2, .num_right = 2}, 3);
  EXPECT_GT(record.odds().right[1], 0.99F);
  for (int i = 0; i < 120; ++i) record.Observe({.limit = 2, .num_made = 1, .num_right = 0}, 1);
  EXPECT_LT(record.odds().right[0], 0.01F);
  EXPECT_GT(record.odds().right[1], 0.99F) << "not reached since";
  EXPECT_LT(record.odds().made[1], 0.01F);
}

TEST(DraftRecordTest, ARoundOutsideItsBoundsIsCut) {
  DraftRecord record = NewRecord();
  record.Observe({.limit = 99, .num_made = 50, .num_right = 40}, 41);
  EXPECT_GT(record.odds().right[kMaxDrafts - 1], 0.6F);
}

TEST(DraftRecordTest, ProbesAreSomeTokensApart) {
  DraftRecord record = NewRecord();
  EXPECT_TRUE(record.ProbeIsDue(0, 256)) << "a new sequence is probed at once";
  record.NoteProbe();
  EXPECT_FALSE(record.ProbeIsDue(0, 1)) << "one at a time";
  record.Observe({.limit = 1, .num_made = 1, .num_right = 0, .probes = true}, 1);
  EXPECT_TRUE(record.ProbeIsDue(0, 1));
  EXPECT_FALSE(record.ProbeIsDue(0, 8));
  record.Observe({.limit = 3, .num_made = 3, .num_right = 3}, 4);
  EXPECT_FALSE(record.ProbeIsDue(0, 5.5));
  record.Observe({}, 1);
  EXPECT_TRUE(record.ProbeIsDue(0, 5.5));
}

TEST(DraftRecordTest, ARightProbeIsFollowedByAnother) {
  DraftRecord record = NewRecord();
  record.NoteProbe();
  record.Observe({.limit = 2, .num_made = 2, .num_right = 2, .probes = true}, 3);
  EXPECT_TRUE(record.ProbeIsDue(1, 256));
}

TEST(DraftRecordTest, AProbeWithoutADraftIsRepeated) {
  DraftRecord record = NewRecord();
  record.NoteProbe();
  record.Observe({.limit = 3, .num_made = 2, .num_right = 2, .probes = true}, 3);
  EXPECT_TRUE(record.ProbeIsDue(2, 256));
}

TEST(DraftRecordTest, AProbeBehindAWrongDraftSaysNothing) {
  DraftRecord record = NewRecord();
  record.NoteProbe();
  record.Observe({.limit = 3, .num_made = 3, .num_right = 1, .probes = true}, 2);
  EXPECT_FALSE(record.ProbeIsDue(2, 3));
  EXPECT_TRUE(record.ProbeIsDue(2, 2));
}

TEST(DraftRecordTest, WhatIsKnownToBeRightIsNotProbed) {
  DraftRecord record = NewRecord();
  for (int i = 0; i < 60; ++i) record.Observe({.limit = 2, .num_made = 2, .num_right = 2}, 3);
  EXPECT_FALSE(record.ProbeIsDue(1, 1));
  EXPECT_TRUE(record.ProbeIsDue(2, 1));
}

}  // namespace
}  // namespace lockstep::router
