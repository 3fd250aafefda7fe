#pragma once

#include <absl/status/statusor.h>

#include "common/json/json_node.h"
#include "router/text/tokenizer/tokenizer_parts.h"

// The two larger sections of tokenizer.json.
namespace lockstep::router {

// "model": vocabulary, merges and options of a BPE model.
absl::Status ReadBpeModel(const JsonNode& model, TokenizerParts& parts);

// One part of "pre_tokenizer" that is not a Sequence.
absl::StatusOr<PreTokenizer::Stage> ReadPreTokenizerStage(const JsonNode& node);

}  // namespace lockstep::router
