#include <algorithm>
#include <utility>

#include "common/json/json_node.h"
#include "common/model_files/file_kind.h"
#include "common/status.h"
#include "router/text/tokenizer/tokenizer_json_parts.h"
#include "router/text/tokenizer/tokenizer_parts.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxSequenceParts = 16;

// The parts of a Sequence of any kind. If the node is no Sequence, the node itself is the one part.
// `list` is the field with the parts.
absl::StatusOr<std::vector<JsonNode>> FlattenSequence(const JsonNode& node, std::string_view list) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, node.StringMember("type"));
  if (type != "Sequence") return std::vector<JsonNode>{node};
  LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys({"type", list}));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode elements, node.Member(list));
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t count, elements.ArraySize());
  if (count > kMaxSequenceParts) {
    return elements.Error(
        fmt::format("has {} parts, expected at most {}", count, kMaxSequenceParts));
  }
  std::vector<JsonNode> parts;
  parts.reserve(count);
  for (size_t i = 0; i < count; ++i) parts.push_back(elements.Element(i));
  return parts;
}

absl::Status ReadNormalizer(const JsonNode& root, TokenizerParts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto normalizer, root.OptionalMember("normalizer"));
  if (!normalizer) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto nodes, FlattenSequence(*normalizer, "normalizers"));
  for (const JsonNode& node : nodes) {
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode type, node.Member("type"));
    if (type.value() != "NFC") return type.Unexpected("\"NFC\"");
    LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys({"type"}));
    parts.normalize_nfc = true;
  }
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const JsonNode& root, TokenizerParts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode pre_tokenizer, root.Member("pre_tokenizer"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto nodes, FlattenSequence(pre_tokenizer, "pretokenizers"));
  for (size_t i = 0; i < nodes.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, nodes[i].StringMember("type"));
    if ((type == "ByteLevel") != (i + 1 == nodes.size())) {
      return nodes[i].Error("ByteLevel must be the last part, and only it");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(PreTokenizer::Stage stage, ReadPreTokenizerStage(nodes[i]));
    parts.pre_tokenizer.push_back(std::move(stage));
  }
  if (nodes.empty()) return pre_tokenizer.Error("has no parts, expected ByteLevel as the last");
  return absl::OkStatus();
}

absl::Status ReadDecoder(const JsonNode& root) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode decoder, root.Member("decoder"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto nodes, FlattenSequence(decoder, "decoders"));
  if (nodes.size() != 1) return decoder.Error("expected ByteLevel alone");
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode type, nodes[0].Member("type"));
  if (type.value() != "ByteLevel") return type.Unexpected("\"ByteLevel\"");
  // These fields have a meaning only in a pre-tokenizer.
  return nodes[0].ExpectOnlyKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

// Reads the ids around "$A" of TemplateProcessing. Its rules for pairs of texts are not used.
absl::Status ReadTemplate(const JsonNode& node, TokenizerParts& parts) {
  LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys({"type", "single", "pair", "special_tokens"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode single, node.Member("single"));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode special_tokens, node.Member("special_tokens"));
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t count, single.ArraySize());
  bool after_text = false;
  for (size_t i = 0; i < count; ++i) {
    const JsonNode piece = single.Element(i);
    LOCKSTEP_RETURN_IF_ERROR(piece.ExpectOnlyKeys({"Sequence", "SpecialToken"}));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto sequence, piece.OptionalMember("Sequence"));
    if (sequence) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string id, sequence->StringMember("id"));
      if (after_text || id != "A") return sequence->Error("expected the sequence \"A\", once");
      after_text = true;
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode special, piece.Member("SpecialToken"));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, special.StringMember("id"));
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode definition, special_tokens.Member(name));
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode ids, definition.Member("ids"));
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t num_ids, ids.ArraySize());
    for (size_t j = 0; j < num_ids; ++j) {
      LOCKSTEP_ASSIGN_OR_RETURN(const TokenId id, ids.Element(j).GetUint(kMaxTokenId));
      (after_text ? parts.suffix_ids : parts.prefix_ids).push_back(id);
    }
  }
  if (!after_text) return single.Error("has no sequence \"A\"");
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const JsonNode& root, TokenizerParts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto processor, root.OptionalMember("post_processor"));
  if (!processor) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto nodes, FlattenSequence(*processor, "processors"));
  bool has_template = false;
  for (const JsonNode& node : nodes) {
    LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode type, node.Member("type"));
    if (type.value() == "ByteLevel") {  // moves offsets, never ids
      LOCKSTEP_RETURN_IF_ERROR(
          node.ExpectOnlyKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    } else if (type.value() == "TemplateProcessing" && !has_template) {
      LOCKSTEP_RETURN_IF_ERROR(ReadTemplate(node, parts));
      has_template = true;
    } else {
      return type.Unexpected("\"ByteLevel\", or \"TemplateProcessing\" once");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerParts> ReadTokenizer(const TokenizerFiles& files) {
  const std::string& name = files.tokenizer.name;
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json document,
                            ParseModelJson(files.tokenizer.text, name));
  const JsonNode root(document, name);
  // "truncation" and "padding" describe the batches of a training, so they are ignored.
  LOCKSTEP_RETURN_IF_ERROR(
      root.ExpectOnlyKeys({"version", "truncation", "padding", "added_tokens", "normalizer",
                           "pre_tokenizer", "post_processor", "decoder", "model"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto version, root.OptionalMember("version"));
  if (version && version->value() != "1.0") return version->Unexpected("\"1.0\"");
  TokenizerParts parts;
  parts.name = name;
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode model, root.Member("model"));
  LOCKSTEP_RETURN_IF_ERROR(ReadBpeModel(model, parts));
  LOCKSTEP_RETURN_IF_ERROR(ReadNormalizer(root, parts));
  LOCKSTEP_RETURN_IF_ERROR(ReadPreTokenizer(root, parts));
  LOCKSTEP_RETURN_IF_ERROR(ReadPostProcessor(root, parts));
  LOCKSTEP_RETURN_IF_ERROR(ReadDecoder(root));
  const auto find = [&parts](std::string_view text) { return parts.vocabulary.Find(text); };
  LOCKSTEP_ASSIGN_OR_RETURN(
      AddedTokens added,
      ReadAddedTokens(root, files, AddedTokenList(parts.vocabulary.num_tokens(), find)));
  parts.added_tokens = std::move(added.tokens);
  parts.bos_token_id = added.bos_token_id;
  parts.eos_token_id = added.eos_token_id;
  parts.warnings = std::move(added.warnings);
  return parts;
}

}  // namespace lockstep::router
