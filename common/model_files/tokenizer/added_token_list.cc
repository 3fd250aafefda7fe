#include "common/model_files/tokenizer/added_token_list.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/json/json.h"
#include "common/model_files/file_kind.h"
#include "common/status.h"

namespace lockstep {
namespace {

bool IsStandard(std::string_view name) {
  return std::ranges::find(kSpecialTokenNames, name) != kSpecialTokenNames.end();
}

absl::StatusOr<AddedToken> ReadToken(const JsonNode& node) {
  AddedToken token;
  LOCKSTEP_ASSIGN_OR_RETURN(token.content, node.StringMember("content"));
  LOCKSTEP_ASSIGN_OR_RETURN(token.single_word, node.BoolMember("single_word", false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.lstrip, node.BoolMember("lstrip", false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.rstrip, node.BoolMember("rstrip", false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.special, node.BoolMember("special", false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.normalized, node.BoolMember("normalized", !token.special));
  return token;
}

// "<s>" or {"content": "<s>", ...}: a special token.
absl::StatusOr<AddedToken> ReadSpecial(const JsonNode& node) {
  AddedToken token;
  if (node.value().is_object()) {
    LOCKSTEP_ASSIGN_OR_RETURN(token, ReadToken(node));
    LOCKSTEP_ASSIGN_OR_RETURN(token.normalized, node.BoolMember("normalized", false));
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(token.content, node.GetString());
  }
  token.special = true;
  return token;
}

// Special tokens of tokenizer_config.json and special_tokens_map.json.
struct SpecialTokens {
  std::map<std::string, AddedToken, std::less<>> named;  // "eos_token"; an empty content: none
  std::vector<AddedToken> more;

  bool Has(std::string_view content) const {
    return std::ranges::any_of(more, [&](const auto& t) { return t.content == content; }) ||
           std::ranges::any_of(named, [&](const auto& e) { return e.second.content == content; });
  }
};

absl::Status ReadMore(const JsonNode& node, SpecialTokens& special) {
  if (node.value().is_object()) {  // names of a model's own
    for (const auto& [name, value] : node.value().items()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto member, node.OptionalMember(name));
      if (!member) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(special.named[name], ReadSpecial(*member));
    }
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t count, node.ArraySize());
  for (size_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(AddedToken token, ReadSpecial(node.Element(i)));
    special.more.push_back(std::move(token));
  }
  return absl::OkStatus();
}

// Members of either file.
absl::Status ReadSpecialTokens(const JsonNode& root, SpecialTokens& special) {
  for (const auto& [name, value] : root.value().items()) {
    const bool is_standard = IsStandard(name);
    // Other names count if they hold a text, such as "image_token".
    if (!is_standard && !(name.ends_with("_token") && value.is_string())) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const auto member, root.OptionalMember(name));
    special.named[name] = AddedToken();
    if (!member) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(special.named[name], ReadSpecial(*member));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto extra, root.OptionalMember("extra_special_tokens"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto more, root.OptionalMember("additional_special_tokens"));
  if (extra && !extra->value().empty()) return ReadMore(*extra, special);
  return more ? ReadMore(*more, special) : absl::OkStatus();
}

// added_tokens_decoder of tokenizer_config.json: tokens by their ids.
absl::StatusOr<std::map<TokenId, AddedToken>> ReadDecoder(const JsonNode& decoder) {
  LOCKSTEP_RETURN_IF_ERROR(decoder.ExpectObject());
  std::map<TokenId, AddedToken> tokens;
  for (const auto& [key, value] : decoder.value().items()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, decoder.Member(key));
    TokenId id = 0;
    if (!absl::SimpleAtoi(key, &id) || id > kMaxTokenId) {
      return node.Error(fmt::format("expected an id from 0 to {} as the key", kMaxTokenId));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(tokens[id], ReadToken(node));
    tokens[id].id = id;
  }
  return tokens;
}

// added_tokens.json of older versions: ids by contents.
absl::StatusOr<std::map<TokenId, AddedToken>> ReadAddedFile(const TokenizerFiles::File& file,
                                                            const SpecialTokens& special) {
  std::map<TokenId, AddedToken> tokens;
  if (file.text.empty()) return tokens;
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json document, ParseModelJson(file.text, file.name));
  const JsonNode root(document, file.name);
  LOCKSTEP_RETURN_IF_ERROR(root.ExpectObject());
  for (const auto& [content, value] : document.items()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, root.Member(content));
    LOCKSTEP_ASSIGN_OR_RETURN(const TokenId id, node.GetUint(kMaxTokenId));
    const bool is_special = special.Has(content);
    tokens[id] = {.id = id, .content = content, .special = is_special, .normalized = !is_special};
  }
  return tokens;
}

std::string Quoted(const AddedToken& token) {
  return fmt::format("{} ({})", DescribeJson(token.content), token.id);
}

std::string ListedAs(const AddedToken& added, TokenId in_file) {
  return fmt::format("{} is listed as {}", Quoted(added), in_file);
}

// One line that names a few of the tokens.
void Warn(std::string_view what, const std::vector<std::string>& names, AddedTokens& out) {
  constexpr size_t kMaxNames = 8;
  if (names.empty()) return;
  std::string text = fmt::format("{}: ", what);
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
  out.warnings.push_back(std::move(text));
}

class Reader {
 public:
  Reader(const TokenizerFiles& files, AddedTokenList list)
      : files_(files), list_(std::move(list)) {}

  absl::StatusOr<AddedTokens> Run(const JsonNode& tokenizer) && {
    LOCKSTEP_RETURN_IF_ERROR(ReadListed(tokenizer));
    const std::vector<AddedToken> listed = list_.tokens();
    SpecialTokens special;
    LOCKSTEP_RETURN_IF_ERROR(ReadOtherFiles(special));
    AddSpecial(special);
    Compare(listed);
    for (const AddedToken& token : list_.tokens()) {
      if (token.id <= kMaxTokenId) continue;
      return InvalidArgument("{}: added token {} has an id above {}", files_.tokenizer.name,
                             Quoted(token), kMaxTokenId);
    }
    out_.tokens = list_.tokens();
    out_.bos_token_id = IdOf(special, "bos_token");
    out_.eos_token_id = IdOf(special, "eos_token");
    return std::move(out_);
  }

 private:
  absl::Status ReadListed(const JsonNode& tokenizer) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto listed, tokenizer.OptionalMember("added_tokens"));
    if (!listed) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t count, listed->ArraySize());
    std::vector<std::string> renumbered;
    for (size_t i = 0; i < count; ++i) {
      const JsonNode node = listed->Element(i);
      LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys(
          {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
      LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode id, node.Member("id"));
      LOCKSTEP_ASSIGN_OR_RETURN(const TokenId in_file, id.GetUint(kMaxTokenId));
      LOCKSTEP_ASSIGN_OR_RETURN(const AddedToken token, ReadToken(node));
      list_.Add(token);
      listed_ids_[in_file] = token;
      const AddedToken* const added = list_.Find(token.content);
      if (added != nullptr && added->id != in_file) {
        renumbered.push_back(ListedAs(*added, in_file));
      }
    }
    WarnRenumbered(files_.tokenizer.name, renumbered);
    return absl::OkStatus();
  }

  // Adds the tokens of the other files and collects the special tokens.
  absl::Status ReadOtherFiles(SpecialTokens& special) {
    nlohmann::json config = nlohmann::json::object();
    if (!files_.config.text.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(config, ParseModelJson(files_.config.text, files_.config.name));
    }
    const JsonNode root(config, files_.config.name);
    LOCKSTEP_RETURN_IF_ERROR(root.ExpectObject());
    LOCKSTEP_RETURN_IF_ERROR(ReadSpecialTokens(root, special));
    std::map<TokenId, AddedToken> decoder;
    if (config.contains("added_tokens_decoder")) {
      LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, root.Member("added_tokens_decoder"));
      LOCKSTEP_ASSIGN_OR_RETURN(decoder, ReadDecoder(node));
    } else {
      // Older files, which count only without that member.
      const TokenizerFiles::File& map_file = files_.special_tokens;
      if (!map_file.text.empty()) {
        LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json map,
                                  ParseModelJson(map_file.text, map_file.name));
        const JsonNode map_root(map, map_file.name);
        LOCKSTEP_RETURN_IF_ERROR(map_root.ExpectObject());
        LOCKSTEP_RETURN_IF_ERROR(ReadSpecialTokens(map_root, special));
      }
      LOCKSTEP_ASSIGN_OR_RETURN(decoder, ReadAddedFile(files_.added_tokens, special));
      for (const auto& [id, token] : listed_ids_) decoder[id] = token;
    }
    std::vector<std::string> renumbered;
    for (const auto& [id, token] : decoder) {
      const AddedToken* const known = list_.Find(token.content);
      if (known == nullptr || !SameFlags(*known, token)) list_.Add(token);
      const AddedToken* const added = list_.Find(token.content);
      if (added != nullptr && added->id != id && !listed_ids_.contains(id)) {
        renumbered.push_back(ListedAs(*added, id));
      }
    }
    WarnRenumbered(files_.config.name, renumbered);
    return absl::OkStatus();
  }

  void WarnRenumbered(const std::string& file, const std::vector<std::string>& renumbered) {
    Warn(fmt::format("{}: added tokens have other ids than the file lists, as in transformers",
                     file),
         renumbered, out_);
  }

  static bool SameFlags(AddedToken a, const AddedToken& b) {
    a.id = b.id;
    return a == b;
  }

  void AddSpecial(const SpecialTokens& special) {
    const auto add = [this](AddedToken token, bool marks_known) {
      const AddedToken* const known = list_.Find(token.content);
      if (known == nullptr) return list_.Add(std::move(token));
      if (!marks_known || known->special) return;
      token = *known;
      token.special = true;
      list_.Add(std::move(token));
    };
    for (const std::string_view name : kSpecialTokenNames) {
      const auto found = special.named.find(name);
      if (found != special.named.end()) add(found->second, /*marks_known=*/true);
    }
    for (const auto& [name, token] : special.named) {
      if (!IsStandard(name)) add(token, /*marks_known=*/true);
    }
    for (const AddedToken& token : special.more) add(token, /*marks_known=*/false);
  }

  void Compare(const std::vector<AddedToken>& listed) {
    const std::vector<AddedToken>& all = list_.tokens();
    std::vector<std::string> changed;
    std::vector<std::string> new_ones;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i >= listed.size()) {
        new_ones.push_back(Quoted(all[i]));
      } else if (!(all[i] == listed[i])) {
        changed.push_back(Quoted(all[i]));
      }
    }
    out_.differs_from_list = !changed.empty() || !new_ones.empty();
    Warn(fmt::format("{}: adds tokens that tokenizer.json does not list", files_.config.name),
         new_ones, out_);
    Warn(fmt::format("{}: its flags replace those of tokenizer.json", files_.config.name), changed,
         out_);
  }

  std::optional<TokenId> IdOf(const SpecialTokens& special, std::string_view name) const {
    const auto found = special.named.find(name);
    if (found == special.named.end()) return std::nullopt;
    return list_.FindId(found->second.content);
  }

  const TokenizerFiles& files_;
  AddedTokenList list_;
  std::map<TokenId, AddedToken> listed_ids_;  // as tokenizer.json has them
  AddedTokens out_;
};

}  // namespace

AddedTokenList::AddedTokenList(size_t num_vocabulary_tokens, FindInVocabulary find)
    : num_vocabulary_tokens_(num_vocabulary_tokens), find_(std::move(find)) {}

void AddedTokenList::Add(AddedToken token) {
  if (token.content.empty()) return;
  const auto [place, is_new] = places_.try_emplace(token.content, tokens_.size());
  if (!is_new) {
    AddedToken& known = tokens_[place->second];
    token.id = known.id;
    token.special = token.special || known.special;
    known = std::move(token);
    return;
  }
  const auto next = static_cast<TokenId>(num_vocabulary_tokens_);
  token.id = find_(token.content).value_or(last_id_ >= next ? *last_id_ + 1 : next);
  last_id_ = std::max(last_id_.value_or(0), token.id);
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokenList::Find(std::string_view content) const {
  const auto found = places_.find(absl::string_view(content.data(), content.size()));
  return found == places_.end() ? nullptr : &tokens_[found->second];
}

std::optional<TokenId> AddedTokenList::FindId(std::string_view content) const {
  if (content.empty()) return std::nullopt;
  const AddedToken* const added = Find(content);
  return added == nullptr ? find_(content) : added->id;
}

absl::StatusOr<AddedTokens> ReadAddedTokens(const JsonNode& tokenizer, const TokenizerFiles& files,
                                            AddedTokenList list) {
  return Reader(files, std::move(list)).Run(tokenizer);
}

}  // namespace lockstep
