#include "router/text/tokenizer/template_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "common/json/json_node.h"
#include "common/model_files/tokenizer/added_token_list.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr size_t kMaxTemplateFiles = 64;
constexpr char kDefault[] = "default";
constexpr char kAdditional[] = "additional_special_tokens";

// The tokens that tokenizer classes of transformers assume if the configuration does not name them.
// A null in the configuration does name them.
struct ClassDefault {
  std::string_view tokenizer_class;
  std::string_view token;
  std::string_view content;
};
constexpr std::array<ClassDefault, 9> kClassDefaults = {{
    {"GPT2Tokenizer", "unk_token", "<|endoftext|>"},
    {"GPT2Tokenizer", "bos_token", "<|endoftext|>"},
    {"GPT2Tokenizer", "eos_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "unk_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "eos_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "pad_token", "<|endoftext|>"},
    {"LlamaTokenizer", "unk_token", "<unk>"},
    {"LlamaTokenizer", "bos_token", "<s>"},
    {"LlamaTokenizer", "eos_token", "</s>"},
}};

// "<s>" or {"content": "<s>", ...}.
absl::StatusOr<std::string> TokenContent(const JsonNode& node) {
  return node.value().is_object() ? node.StringMember("content") : node.GetString();
}

absl::Status ReadTokenList(const JsonNode& node, Json& tokens) {
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t size, node.ArraySize());
  Json list = Json::array();
  for (size_t i = 0; i < size; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string content, TokenContent(node.Element(i)));
    list.push_back(std::move(content));
  }
  if (!list.empty()) tokens[kAdditional] = std::move(list);
  return absl::OkStatus();
}

// Reads the special tokens that one file names. Null removes a token.
absl::Status ReadTokens(const JsonNode& root, Json& tokens) {
  LOCKSTEP_RETURN_IF_ERROR(root.ExpectObject());
  for (const auto& [key, value] : root.value().items()) {
    const bool is_named = std::ranges::find(kSpecialTokenNames, key) != kSpecialTokenNames.end();
    if (value.is_null()) {
      if (is_named) tokens.erase(key);
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, root.Member(key));
    if (key == kAdditional) {
      LOCKSTEP_RETURN_IF_ERROR(ReadTokenList(node, tokens));
    } else if (key == "extra_special_tokens" && value.is_object()) {
      for (const auto& [name, token] : value.items()) {
        LOCKSTEP_ASSIGN_OR_RETURN(const auto extra, node.OptionalMember(name));
        if (!extra) continue;
        LOCKSTEP_ASSIGN_OR_RETURN(tokens[name], TokenContent(*extra));
      }
    } else if (is_named) {
      LOCKSTEP_ASSIGN_OR_RETURN(tokens[key], TokenContent(node));
    } else if (key.ends_with("_token") && value.is_string()) {
      tokens[key] = value.get<std::string>();
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTemplates(const JsonNode& root, TemplateSource& source) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto node, root.OptionalMember("chat_template"));
  if (!node) return absl::OkStatus();
  if (!node->value().is_array()) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string text, node->GetString());
    if (!text.empty()) source.templates[kDefault] = std::move(text);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < node->value().size(); ++i) {
    const JsonNode entry = node->Element(i);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, entry.StringMember("name"));
    LOCKSTEP_ASSIGN_OR_RETURN(source.templates[name], entry.StringMember("template"));
  }
  return absl::OkStatus();
}

// Reads the template files of a folder, by the template's name.
absl::StatusOr<std::map<std::string, std::string>> ReadTemplateFiles(
    const std::filesystem::path& folder) {
  std::map<std::string, std::string> templates;
  std::error_code error;
  const std::filesystem::path main_file = folder / "chat_template.jinja";
  if (std::filesystem::exists(main_file, error)) {
    LOCKSTEP_ASSIGN_OR_RETURN(templates[kDefault], ReadTextFile(main_file.string(), kMaxFileBytes));
  }
  const std::filesystem::path more = folder / "additional_chat_templates";
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator it(more, error); !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".jinja") continue;
    if (templates.size() == kMaxTemplateFiles) {
      return InvalidArgument("{}: more than {} chat templates", more.string(), kMaxTemplateFiles);
    }
    LOCKSTEP_ASSIGN_OR_RETURN(templates[it->path().stem().string()],
                              ReadTextFile(it->path().string(), kMaxFileBytes));
  }
  std::erase_if(templates, [](const auto& entry) { return entry.second.empty(); });
  for (const auto& [name, text] : templates) {
    if (const auto offset = FindInvalidUtf8(text)) {
      return InvalidArgument("{}: chat template \"{}\" is not valid UTF-8 at byte {}",
                             folder.string(), name, *offset);
    }
  }
  return templates;
}

}  // namespace

absl::StatusOr<TemplateSource> ReadTemplateConfig(const TokenizerFiles& files) {
  const std::string& name = files.config.name;
  const std::string_view text =
      files.config.text.empty() ? std::string_view("{}") : std::string_view(files.config.text);
  TemplateSource source;
  Json tokens = Json::object();
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json config, ParseJson(text, name));
  const JsonNode root(config, name);
  LOCKSTEP_RETURN_IF_ERROR(root.ExpectObject());
  if (const auto it = config.find("tokenizer_class"); it != config.end() && it->is_string()) {
    std::string_view tokenizer_class = it->get_ref<const std::string&>();
    if (tokenizer_class.ends_with("Fast")) tokenizer_class.remove_suffix(4);
    for (const ClassDefault& entry : kClassDefaults) {
      if (entry.tokenizer_class == tokenizer_class)
        tokens[std::string(entry.token)] = entry.content;
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadTokens(root, tokens));
  const TokenizerFiles::File& map_file = files.special_tokens;
  if (!map_file.text.empty() && !config.contains("added_tokens_decoder")) {
    LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json map, ParseJson(map_file.text, map_file.name));
    LOCKSTEP_RETURN_IF_ERROR(ReadTokens(JsonNode(map, map_file.name), tokens));
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadTemplates(root, source));
  source.special_tokens_json = tokens.dump();
  return source;
}

absl::StatusOr<TemplateSource> ReadTemplateFolder(const std::filesystem::path& folder,
                                                  const TokenizerFiles& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(TemplateSource source, ReadTemplateConfig(files));
  LOCKSTEP_ASSIGN_OR_RETURN(auto templates, ReadTemplateFiles(folder));
  if (!templates.empty()) source.templates = std::move(templates);
  return source;
}

absl::StatusOr<TemplateSource> ReadGgufTemplates(const GgufFile& file) {
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  // The format spells "seperator" this way.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kIds = {{
      {"bos_token", "bos_token_id"},
      {"eos_token", "eos_token_id"},
      {"unk_token", "unknown_token_id"},
      {"sep_token", "seperator_token_id"},
      {"pad_token", "padding_token_id"},
      {"cls_token", "cls_token_id"},
      {"mask_token", "mask_token_id"},
  }};
  TemplateSource source;
  for (const std::string_view key : file.Keys()) {
    if (!key.starts_with(kTemplate)) continue;
    std::string_view name = key.substr(kTemplate.size());
    if (!name.empty() && name.front() != '.') continue;  // "tokenizer.chat_templates": the names
    if (!name.empty()) name.remove_prefix(1);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view text, file.GetString(key));
    if (FindInvalidUtf8(text))
      return InvalidArgument("{}: {} is not valid UTF-8", file.name(), key);
    if (!text.empty()) source.templates[name.empty() ? kDefault : std::string(name)] = text;
  }
  Json special = Json::object();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tokens, file.GetStrings("tokenizer.ggml.tokens"));
  for (const auto& [name, id_name] : kIds) {
    const std::string key = "tokenizer.ggml." + std::string(id_name);
    if (file.Find(key) == nullptr) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
    if (id < tokens.size() && !FindInvalidUtf8(tokens[id])) {
      special[std::string(name)] = std::string(tokens[id]);
    }
  }
  source.special_tokens_json = special.dump();
  return source;
}

}  // namespace lockstep::router
