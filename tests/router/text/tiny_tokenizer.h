#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// A tokenizer.json with the 256 bytes as ids 0 to 255, a few merges of "hello" after them, "<s>"
// (special) and "<tool>" (not special) last, and GPT-2's pre-tokenizer. Tests change what they
// test.
nlohmann::json TinyTokenizerJson();

// INVALID_ARGUMENT and the like come through.
absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadTiny(const nlohmann::json& definition,
                                                          const nlohmann::json& config = nullptr);

}  // namespace lockstep::router
