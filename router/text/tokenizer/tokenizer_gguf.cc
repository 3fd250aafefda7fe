#include <array>
#include <utility>

#include "common/shown_text.h"
#include "common/status.h"
#include "router/text/tokenizer/template_files.h"
#include "router/text/tokenizer/tokenizer_parts.h"
#include "router/text/unicode/utf8.h"

// Keys: github.com/ggml-org/ggml, docs/gguf.md, and further keys that converters write.
namespace lockstep::router {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

// token_type of the file.
enum GgufTokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
};

// The meaning of a name in tokenizer.ggml.pre, in terms of the original model's tokenizer.json.
struct PreTokenizerRecipe {
  std::string_view name;
  KnownPattern pattern;
  bool single_digits = false;
  bool ignore_merges = false;
  bool normalize_nfc = false;
  bool add_bos_by_default = false;
};

constexpr std::array<PreTokenizerRecipe, 7> kRecipes = {{
    {.name = "gpt-2", .pattern = KnownPattern::kGpt2},
    {.name = "smollm", .pattern = KnownPattern::kGpt2, .single_digits = true},
    {.name = "qwen2", .pattern = KnownPattern::kQwen2, .normalize_nfc = true},
    // DeepSeek-R1-Distill-Qwen: the name differs, because its special tokens are DeepSeek's.
    {.name = "deepseek-r1-qwen", .pattern = KnownPattern::kQwen2, .normalize_nfc = true},
    {.name = "llama-bpe",
     .pattern = KnownPattern::kLlama3,
     .ignore_merges = true,
     .add_bos_by_default = true},
    {.name = "llama3",
     .pattern = KnownPattern::kLlama3,
     .ignore_merges = true,
     .add_bos_by_default = true},
    {.name = "llama-v3",
     .pattern = KnownPattern::kLlama3,
     .ignore_merges = true,
     .add_bos_by_default = true},
}};

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) { parts_.name = file.name(); }

  absl::StatusOr<TokenizerParts> Run() && {
    LOCKSTEP_RETURN_IF_ERROR(CheckFeatures());
    LOCKSTEP_RETURN_IF_ERROR(ReadPreTokenizer());
    LOCKSTEP_RETURN_IF_ERROR(ReadTokens());
    LOCKSTEP_RETURN_IF_ERROR(ReadMerges());
    LOCKSTEP_RETURN_IF_ERROR(ReadSpecialIds());
    LOCKSTEP_ASSIGN_OR_RETURN(parts_.templates, ReadGgufTemplates(file_));
    return std::move(parts_);
  }

 private:
  static std::string Key(std::string_view name) { return std::string(kPrefix).append(name); }

  absl::Status CheckFeatures() {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view model, file_.GetString(Key("model")));
    if (model != "gpt2") return Unsupported("model", model, "gpt2 (byte-level BPE)");
    for (const std::string_view name :
         {"add_space_prefix", "remove_extra_whitespaces", "add_sep_token"}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool is_set, GetBoolOr(name, false));
      if (is_set) return Unsupported(name, "true", "false");
    }
    if (file_.Find(Key("precompiled_charsmap")) != nullptr) {
      return Unsupported("precompiled_charsmap", "present", "no such key");
    }
    return absl::OkStatus();
  }

  absl::Status ReadPreTokenizer() {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view name, file_.GetString(Key("pre")));
    for (const PreTokenizerRecipe& recipe : kRecipes) {
      if (recipe.name == name) recipe_ = &recipe;
    }
    if (recipe_ == nullptr) {
      std::string known;
      for (const PreTokenizerRecipe& recipe : kRecipes) {
        known += known.empty() ? "" : ", ";
        known += recipe.name;
      }
      return Unsupported("pre", name, known);
    }
    if (recipe_->single_digits) {
      parts_.pre_tokenizer.push_back({.splitter = MakeDigitSplitter(true)});
    }
    parts_.pre_tokenizer.push_back({.splitter = MakeKnownSplitter(recipe_->pattern)});
    parts_.bpe.ignore_merges = recipe_->ignore_merges;
    parts_.normalize_nfc = recipe_->normalize_nfc;
    return absl::OkStatus();
  }

  absl::Status ReadTokens() {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto tokens, file_.GetStrings(Key("tokens")));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file_.GetInts(Key("token_type")));
    if (tokens.size() != types.size()) {
      return Error("token_type", fmt::format("has {} entries, {}tokens has {}", types.size(),
                                             kPrefix, tokens.size()));
    }
    if (tokens.size() > size_t{kMaxTokenId} + 1) {
      return Error("tokens", fmt::format("has {} entries, expected at most {}", tokens.size(),
                                         size_t{kMaxTokenId} + 1));
    }
    for (TokenId id = 0; id < tokens.size(); ++id) {
      LOCKSTEP_RETURN_IF_ERROR(ReadToken(id, tokens[id], types[id]));
    }
    return absl::OkStatus();
  }

  absl::Status ReadToken(TokenId id, std::string_view text, int64_t type) {
    if (type == kUnused) return absl::OkStatus();  // padding up to the size of the embedding
    const bool is_added = type == kControl || type == kUnknown || type == kUserDefined;
    if (type != kNormal && !is_added) {
      return Error("token_type", fmt::format("[{}] is {}, expected 1 to 5", id, type));
    }
    if (FindInvalidUtf8(text)) return Error("tokens", fmt::format("[{}] is not valid UTF-8", id));
    if (is_added) {
      if (text.empty()) return Error("tokens", fmt::format("[{}] is empty", id));
      parts_.added_tokens.push_back(
          {.id = id, .content = std::string(text), .special = type != kUserDefined});
    }
    // With ignore_merges, a piece that spells an added token must not become it.
    if (is_added && recipe_->ignore_merges) return absl::OkStatus();
    if (absl::Status status = parts_.vocabulary.AddToken(id, text); !status.ok()) {
      return Error("tokens", Message(status));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMerges() {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto merges, file_.GetStrings(Key("merges")));
    for (size_t i = 0; i < merges.size(); ++i) {
      const std::string_view merge = merges[i];
      const size_t space = merge.find(' ');
      if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
        return Error("merges", fmt::format("[{}] is {}, expected two tokens with one space "
                                           "between them",
                                           i, Quote(merge)));
      }
      const absl::Status status =
          parts_.vocabulary.AddMerge(merge.substr(0, space), merge.substr(space + 1));
      if (!status.ok()) return Error("merges", fmt::format("[{}]: {}", i, Message(status)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSpecialIds() {
    LOCKSTEP_ASSIGN_OR_RETURN(parts_.bos_token_id, GetIdOr("bos_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(parts_.eos_token_id, GetIdOr("eos_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool add_bos,
                              GetBoolOr("add_bos_token", recipe_->add_bos_by_default));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool add_eos, GetBoolOr("add_eos_token", false));
    if (add_bos && !parts_.bos_token_id) return Error("bos_token_id", "is missing");
    if (add_eos && !parts_.eos_token_id) return Error("eos_token_id", "is missing");
    if (add_bos) parts_.prefix_ids.push_back(*parts_.bos_token_id);
    if (add_eos) parts_.suffix_ids.push_back(*parts_.eos_token_id);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> GetBoolOr(std::string_view name, bool otherwise) const {
    if (file_.Find(Key(name)) == nullptr) return otherwise;
    return file_.GetBool(Key(name));
  }

  absl::StatusOr<std::optional<TokenId>> GetIdOr(std::string_view name) const {
    if (file_.Find(Key(name)) == nullptr) return std::optional<TokenId>();
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t id, file_.GetUint(Key(name)));
    if (id > kMaxTokenId) return Error(name, fmt::format("is {}, no token has this id", id));
    return std::optional<TokenId>(static_cast<TokenId>(id));
  }

  absl::Status Error(std::string_view name, std::string_view problem) const {
    return InvalidArgument("{}: {}{} {}", file_.name(), kPrefix, name, problem);
  }
  absl::Status Unsupported(std::string_view name, std::string_view value,
                           std::string_view supported) const {
    return Error(name, fmt::format("is {}, supported: {}", Quote(value), supported));
  }

  const GgufFile& file_;
  TokenizerParts parts_;
  const PreTokenizerRecipe* recipe_ = nullptr;
};

}  // namespace

absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file) {
  return Reader(file).Run();
}

}  // namespace lockstep::router
