#include "common/model_files/tokenizer/tokenizer_fingerprint.h"

#include <absl/status/status.h>

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "common/hash.h"
#include "common/json/json.h"
#include "common/model_files/file_kind.h"
#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/model_files/tokenizer/added_token_list.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Sections of tokenizer.json. Left out are truncation and padding, which a server does not use, and
// the decoder, which makes text from ids.
constexpr std::array<std::string_view, 5> kJsonSections = {"model", "added_tokens", "normalizer",
                                                           "pre_tokenizer", "post_processor"};

// Keys of GGUF metadata. Whether a text gets a begin token by default follows from the name in
// `pre`, so the begin token's id always counts. The end token's id counts only if the file asks for
// an end token.
constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kGgufAddEos = "tokenizer.ggml.add_eos_token";
constexpr std::string_view kGgufEosId = "tokenizer.ggml.eos_token_id";
constexpr std::array<std::string_view, 7> kGgufKeys = {
    "tokenizer.ggml.model",       "tokenizer.ggml.pre",           kGgufTokens,
    "tokenizer.ggml.merges",      "tokenizer.ggml.add_bos_token", "tokenizer.ggml.token_type",
    "tokenizer.ggml.bos_token_id"};

// 0 means that there is no tokenizer.
uint64_t NotZero(uint64_t hash) { return hash == 0 ? 1 : hash; }

template <typename T>
uint64_t HashOfScalar(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return Hash64(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

uint64_t HashOf(const GgufArray& array) {
  return std::visit(
      [](const auto& elements) {
        uint64_t hash = elements.size();
        for (const auto& element : elements) {
          using T = typename std::decay_t<decltype(elements)>::value_type;
          hash = CombineHashes(hash, HashOfScalar<T>(element));
        }
        return hash;
      },
      array.elements);
}

uint64_t HashOf(const GgufValue& value) {
  return std::visit(
      [](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::shared_ptr<const GgufArray>>) {
          return HashOf(*held);
        } else {
          return HashOfScalar<T>(held);
        }
      },
      value);
}

bool IsTrue(const GgufValue* value) {
  const bool* held = value == nullptr ? nullptr : std::get_if<bool>(value);
  return held != nullptr && *held;
}

uint64_t OfGguf(const GgufFile& file) {
  if (file.Find(kGgufTokens) == nullptr) return 0;
  uint64_t hash = Hash64(std::string_view("gguf"));
  const auto mix = [&](std::string_view key) {
    const GgufValue* const value = file.Find(key);
    if (value != nullptr) {
      hash = CombineHashes(CombineHashes(hash, Hash64(key)), HashOf(*value));
    }
  };
  for (const std::string_view key : kGgufKeys) mix(key);
  if (IsTrue(file.Find(kGgufAddEos))) mix(kGgufEosId);
  return NotZero(hash);
}

// Newer files write a merge as ["a", "b"], older ones as "a b".
void SpellMergesAlike(nlohmann::json& model) {
  if (!model.is_object() || !model.contains("merges") || !model["merges"].is_array()) return;
  for (nlohmann::json& merge : model["merges"]) {
    if (!merge.is_string()) continue;
    const std::string& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    merge = nlohmann::json::array({text.substr(0, space), text.substr(space + 1)});
  }
}

// The tokens added by the files next to tokenizer.json. nullopt: none, as in most folders.
absl::StatusOr<std::optional<uint64_t>> OfAddedTokens(const nlohmann::json& document,
                                                      const TokenizerFiles& files) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const auto model = document.find("model");
  const bool has_vocabulary =
      model != document.end() && model->is_object() && model->contains("vocab");
  const nlohmann::json& vocabulary = has_vocabulary ? model->at("vocab") : kEmpty;
  const auto find = [&vocabulary](std::string_view text) -> std::optional<TokenId> {
    if (!vocabulary.is_object()) return std::nullopt;
    const auto found = vocabulary.find(std::string(text));
    if (found == vocabulary.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<TokenId>();
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const AddedTokens added,
                            ReadAddedTokens(JsonNode(document, files.tokenizer.name), files,
                                            AddedTokenList(vocabulary.size(), find)));
  if (!added.differs_from_list) return std::optional<uint64_t>();
  uint64_t hash = Hash64(std::string_view("added"));
  for (const AddedToken& token : added.tokens) {
    const std::string text =
        fmt::format("{} {}{}{}{}{} {}", token.id, token.special, token.single_word, token.lstrip,
                    token.rstrip, token.normalized, token.content);
    hash = CombineHashes(hash, Hash64(std::string_view(text)));
  }
  return std::optional(hash);
}

absl::StatusOr<uint64_t> OfJson(const TokenizerFiles& files) {
  const std::string& name = files.tokenizer.name;
  LOCKSTEP_ASSIGN_OR_RETURN(nlohmann::json document, ParseModelJson(files.tokenizer.text, name));
  if (!document.is_object()) {
    return InvalidArgument("{}: is {}, expected an object", name, DescribeJson(document));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint64_t> added, OfAddedTokens(document, files));
  uint64_t hash = Hash64(std::string_view("json"));
  for (const std::string_view section : kJsonSections) {
    nlohmann::json& content = document[std::string(section)];  // null where absent
    if (section == "model") SpellMergesAlike(content);
    hash = CombineHashes(hash, Hash64(std::string_view(content.dump())));  // its keys are sorted
  }
  return NotZero(added ? CombineHashes(hash, *added) : hash);
}

}  // namespace

absl::StatusOr<uint64_t> LoadTokenizerFingerprint(const std::string& path) {
  if (IsGgufPath(path)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return OfGguf(file);
  }
  const absl::StatusOr<TokenizerFiles> files = ReadTokenizerFiles(path);
  if (absl::IsNotFound(files.status())) return 0;
  if (!files.ok()) return files.status();
  return OfJson(*files);
}

}  // namespace lockstep
