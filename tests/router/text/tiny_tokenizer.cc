#include "tests/router/text/tiny_tokenizer.h"

#include "common/model_files/tokenizer/byte_alphabet.h"

namespace lockstep::router {

nlohmann::json TinyTokenizerJson() {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[ByteToAlphabet(static_cast<uint8_t>(byte))] = byte;
  uint32_t next_id = 256;
  for (const char* token : {"he", "ll", "hell", "hello", "\u0120hello"})
    vocabulary[token] = next_id++;
  const auto added = [](uint32_t id, const char* content, bool special) {
    return nlohmann::json{{"id", id},          {"content", content}, {"single_word", false},
                          {"lstrip", false},   {"rstrip", false},    {"normalized", false},
                          {"special", special}};
  };
  nlohmann::json definition;
  definition["version"] = "1.0";
  definition["truncation"] = nullptr;
  definition["padding"] = nullptr;
  definition["added_tokens"] = {added(261, "<s>", true), added(262, "<tool>", false)};
  definition["normalizer"] = nullptr;
  definition["pre_tokenizer"] = {{"type", "ByteLevel"},
                                 {"add_prefix_space", false},
                                 {"trim_offsets", true},
                                 {"use_regex", true}};
  definition["post_processor"] = nullptr;
  definition["decoder"] = definition["pre_tokenizer"];
  definition["model"] = {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", vocabulary},
                         {"merges", {"h e", "l l", "he ll", "hell o", "\u0120 hello"}}};
  return definition;
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadTiny(const nlohmann::json& definition,
                                                          const nlohmann::json& config) {
  return Tokenizer::FromJson(definition.dump(), config.is_null() ? "" : config.dump(), "tiny.json");
}

}  // namespace lockstep::router
