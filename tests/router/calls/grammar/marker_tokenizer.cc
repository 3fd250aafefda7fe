#include "tests/router/calls/grammar/marker_tokenizer.h"

#include "common/check.h"
#include "common/status.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {

std::vector<std::string> MarkerTokens() {
  return {"<think>",
          "</think>",
          "[THINK]",
          "[/THINK]",
          "<tool_call>",
          "</tool_call>",
          "<|python_tag|>",
          "<|python_start|>",
          "<|python_end|>",
          "[TOOL_CALLS]",
          "[ARGS]",
          "[CALL_ID]",
          "<｜tool▁calls▁begin｜>",
          "<｜tool▁calls▁end｜>",
          "<｜tool▁call▁begin｜>",
          "<｜tool▁call▁end｜>",
          "<｜tool▁sep｜>",
          "<|tool_calls_section_begin|>",
          "<|tool_calls_section_end|>",
          "<|tool_call_begin|>",
          "<|tool_call_end|>",
          "<|tool_call_argument_begin|>",
          "<arg_key>",
          "</arg_key>",
          "<arg_value>",
          "</arg_value>",
          "<minimax:tool_call>",
          "</minimax:tool_call>",
          "｜DSML｜",
          "<|start|>",
          "<|channel|>",
          "<|constrain|>",
          "<|message|>",
          "<|end|>",
          "<|call|>",
          "<|return|>"};
}

std::unique_ptr<const Tokenizer> MarkerTokenizer(const std::vector<std::string>& markers) {
  nlohmann::json definition = TinyTokenizerJson();
  nlohmann::json& added = definition["added_tokens"];
  uint32_t id = added.back()["id"].get<uint32_t>();
  for (const std::string& marker : markers) {
    nlohmann::json token = added[0];
    token["id"] = ++id;
    token["content"] = marker;
    added.push_back(token);
  }
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = LoadTiny(definition);
  LOCKSTEP_CHECK(tokenizer.ok(), "the definition is valid: {}", Message(tokenizer.status()));
  return *std::move(tokenizer);
}

std::vector<VocabularyToken> VocabularyOf(const Tokenizer& tokenizer) {
  std::vector<VocabularyToken> tokens;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    tokens.push_back(
        {.bytes = std::string(tokenizer.TokenBytes(id)), .special = tokenizer.IsSpecial(id)});
  }
  return tokens;
}

}  // namespace lockstep::router
