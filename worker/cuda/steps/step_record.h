#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/cuda/steps/step_memory.h"
#include "worker/steps/batch_builder.h"
#include "worker/steps/row_result.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// A row of a pass that samples.
struct PassSample : LogitsUse {
  uint32_t draft_number = 0;  // 0: the row of a last known token
};

// One forward pass under way.
struct PassRecord {
  // A row of the step that has rows of drafts.
  struct Drafts {
    uint32_t row = 0;
    uint32_t num_drafts = 0;
  };

  uint64_t serial = 0;
  bool computes = false;   // has tokens; otherwise it only carries changes of slots
  bool describes = false;  // whether sampled tokens need log-probabilities
  // In the order of the ring entry's rows. The position is too low by what
  // PassSource::num_kept_drafts says.
  std::vector<PassSample> samples;
  std::vector<LogitsUse> prompts;  // in the order of the staging's prompt rows
  std::vector<Drafts> drafts;
};

// The state of a step between Submit and its result.
struct CudaStepRecord {
  struct Row : RowResult {
    uint64_t generation = 0;  // of the slot when the step was submitted
    uint32_t num_left = 0;    // tokens still to enqueue in this iteration
    uint32_t draft_limit = 0;
    bool samples = false;  // a pass of the step samples for it
    bool failed = false;
    v1::PromptLogprobs* prompt_logprobs = nullptr;
  };

  v1::StepResult result;
  StepStats stats;
  std::vector<Row> rows;
  std::vector<PassRecord> passes;
  size_t num_harvested = 0;  // of the passes
  uint64_t begin_ns = 0;     // of the first pass, on the device's timer
  uint64_t idle_ns = 0;
  uint64_t end_ns = 0;

  // A row of a sequence that has stopped.
  struct EndedRow {
    SlotId slot = 0;
    uint64_t generation = 0;
    // The device does not know that the row failed. Tokens that it still samples for this
    // generation are ignored.
    bool failed_in_prompt = false;
  };
  // Where a pass left its results, and further facts from the runner.
  struct PassSource {
    const kernels::ResultRing& ring;
    const PassStaging& staging;
    const std::vector<uint64_t>& failed_generations;  // of each slot
    // Of each slot: drafts kept in passes before this one, modulo 2^32.
    const std::vector<uint32_t>& num_kept_drafts;
    uint64_t last_end_ns;  // of the previous pass; 0: there was none
  };

  void Clear();
  // Call when the next pass has been reported. Adds the rows that the pass ended to `ended`.
  void TakePass(const PassSource& source, const PassRecord& pass, std::vector<EndedRow>& ended);
  bool done() const { return num_harvested == passes.size(); }
  // Writes the step's rows, stops, errors and times to `result`. All passes must have been
  // harvested.
  void Report(const std::vector<uint64_t>& failed_generations);

 private:
  void TakeTimes(const PassSource& source, size_t entry);
  void TakePrompts(const PassSource& source, const PassRecord& pass, std::vector<EndedRow>& ended);
  void TakeSample(const PassSource& source, const PassRecord& pass, size_t index,
                  std::vector<EndedRow>& ended);
};

}  // namespace lockstep::worker
