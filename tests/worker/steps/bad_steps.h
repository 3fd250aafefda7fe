#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::testing {

// Vocabulary of the model that the cases are written for.
inline constexpr uint32_t kBadStepVocabSize = 50;

// Blocks of the second KV group, if the model has one.
inline constexpr uint32_t kBadStepWindowBlocks = 12;

// One way to break the rules of a step, and the answer that it gets. The cases spoil the step that
// step_validator_test.cc describes: good, and starting slot 5.
struct BadStep {
  std::string name;
  std::function<void(worker::v1::StepRequest&)> spoil;
  std::string message;  // a part of it
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

std::vector<BadStep> BadStarts();
std::vector<BadStep> BadStartedBlocks();
std::vector<BadStep> BadSampling();
std::vector<BadStep> BadTokenLists();  // of sampling
std::vector<BadStep> BadReleases();
std::vector<BadStep> BadGrowth();
std::vector<BadStep> BadRows();
std::vector<BadStep> BadDrafts();
std::vector<BadStep> BadRepeats();
// Of a model whose second group has a window of six tokens.
std::vector<BadStep> BadGroupStarts();
std::vector<BadStep> BadGroupGrowth();
std::vector<BadStep> BadOrder();  // epoch, step_id, and what has no place in a step

}  // namespace lockstep::testing
