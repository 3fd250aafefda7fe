#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/serving/engine.h"

namespace lockstep::bench {

// How much drafts save at a given acceptance, whatever the drafter: each position has the token of
// plain decoding with a given probability, else another one.
struct DraftCase {
  uint32_t batch = 0;
  uint32_t context = 0;
  uint32_t max_drafts = 0;  // for a row
  double acceptance = 0.0;  // probability that a draft is right
};

// From draft:BxC:DRAFTS:ACCEPTANCE; none: it is no such case, or a number is out of range.
std::optional<DraftCase> ParseDraftCase(const std::string& name);

// Decodes with and without drafts and prints one JSON object. Dies if a token differs, or if the
// runner's drafts do not come from a script. `options` are those of plain decoding. No other engine
// may use the runner.
void MeasureDrafts(worker::StepRunner& runner, const worker::ForwardModelInfo& info,
                   const Engine::Options& options, const DraftCase& draft_case, int repeats);

}  // namespace lockstep::bench
