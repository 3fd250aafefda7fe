#include "router/text/tokenizer/tokenizer_json_parts.h"

#include <utility>

#include "common/status.h"
#include "router/text/tokenizer/regex_splitter.h"

namespace lockstep::router {
namespace {

// Refuses options of the model that would change ids and are not implemented.
absl::Status RefuseOptions(const JsonNode& model) {
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto node, model.OptionalMember(key));
    // NOLINTNEXTLINE(readability-container-size-empty): null is empty, too
    if (node && node->value() != "") return node->Unexpected("null or \"\"");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto dropout, model.OptionalMember("dropout"));
  if (dropout && !(dropout->value().is_number() && dropout->value() == 0)) {
    return dropout->Unexpected("null or 0");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto byte_fallback, model.OptionalMember("byte_fallback"));
  if (byte_fallback && byte_fallback->value() != false) return byte_fallback->Unexpected("false");
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const JsonNode& vocabulary, BpeModel::Builder& builder) {
  LOCKSTEP_RETURN_IF_ERROR(vocabulary.ExpectObject());
  for (const auto& [text, id] : vocabulary.value().items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxTokenId) {
      LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, vocabulary.Member(text));
      return node.Unexpected(fmt::format("an id from 0 to {}", kMaxTokenId));
    }
    const absl::Status status = builder.AddToken(id.get<TokenId>(), text);
    if (!status.ok()) return vocabulary.Error(Message(status));
  }
  return absl::OkStatus();
}

// "a b", or ["a", "b"].
absl::Status ReadMerge(const JsonNode& merges, size_t index, BpeModel::Builder& builder) {
  const nlohmann::json& merge = merges.value()[index];
  const auto fail = [&](std::string_view problem) { return merges.Element(index).Error(problem); };
  constexpr std::string_view kExpected = "expected two tokens: \"a b\" or [\"a\", \"b\"]";
  std::string_view left;
  std::string_view right;
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return fail(kExpected);
    left = text.substr(0, space);
    right = text.substr(space + 1);
    if (right.find(' ') != std::string_view::npos) return fail(kExpected);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    left = merge[0].get_ref<const std::string&>();
    right = merge[1].get_ref<const std::string&>();
  } else {
    return fail(kExpected);
  }
  const absl::Status status = builder.AddMerge(left, right);
  return status.ok() ? status : fail(Message(status));
}

absl::StatusOr<PreTokenizer::Stage> ReadByteLevel(const JsonNode& node) {
  LOCKSTEP_RETURN_IF_ERROR(
      node.ExpectOnlyKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  PreTokenizer::Stage stage;
  LOCKSTEP_ASSIGN_OR_RETURN(stage.add_prefix_space, node.BoolMember("add_prefix_space", true));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool use_regex, node.BoolMember("use_regex", true));
  if (use_regex) stage.splitter = MakeKnownSplitter(KnownPattern::kGpt2);
  return stage;
}

absl::StatusOr<PreTokenizer::Stage> ReadDigits(const JsonNode& node) {
  LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys({"type", "individual_digits"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool individual, node.BoolMember("individual_digits", false));
  PreTokenizer::Stage stage;
  stage.splitter = MakeDigitSplitter(individual);
  return stage;
}

absl::StatusOr<PreTokenizer::Stage> ReadSplit(const JsonNode& node) {
  LOCKSTEP_RETURN_IF_ERROR(node.ExpectOnlyKeys({"type", "pattern", "behavior", "invert"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode pattern, node.Member("pattern"));
  LOCKSTEP_RETURN_IF_ERROR(pattern.ExpectOnlyKeys({"Regex"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode regex, pattern.Member("Regex"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string source, regex.GetString());
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode behavior, node.Member("behavior"));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool invert, node.BoolMember("invert", false));
  const std::optional<KnownPattern> known = FindKnownPattern(source);
  // A published pattern matches every text completely, so there is nothing between matches to
  // remove.
  const bool keeps_everything =
      behavior.value() == "Isolated" || (behavior.value() == "Removed" && invert && known);
  if (!keeps_everything) return behavior.Unexpected("\"Isolated\"");
  PreTokenizer::Stage stage;
  if (known) {
    stage.splitter = MakeKnownSplitter(*known);
    return stage;
  }
  absl::StatusOr<std::unique_ptr<const Splitter>> splitter = MakeRegexSplitter(source);
  if (!splitter.ok()) return regex.Error(Message(splitter.status()));
  stage.splitter = *std::move(splitter);
  return stage;
}

}  // namespace

absl::Status ReadBpeModel(const JsonNode& model, TokenizerParts& parts) {
  LOCKSTEP_RETURN_IF_ERROR(model.ExpectOnlyKeys(
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto type, model.OptionalMember("type"));
  if (type && type->value() != "BPE") return type->Unexpected("\"BPE\"");
  LOCKSTEP_RETURN_IF_ERROR(RefuseOptions(model));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode vocabulary, model.Member("vocab"));
  LOCKSTEP_RETURN_IF_ERROR(ReadVocabulary(vocabulary, parts.vocabulary));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode merges, model.Member("merges"));
  LOCKSTEP_ASSIGN_OR_RETURN(const size_t num_merges, merges.ArraySize());
  for (size_t i = 0; i < num_merges; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(ReadMerge(merges, i, parts.vocabulary));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(parts.bpe.ignore_merges, model.BoolMember("ignore_merges", false));
  LOCKSTEP_ASSIGN_OR_RETURN(parts.bpe.fuse_unknown, model.BoolMember("fuse_unk", false));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto unknown, model.OptionalMember("unk_token"));
  if (unknown) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, unknown->GetString());
    parts.bpe.unknown_id = parts.vocabulary.Find(text);
    if (!parts.bpe.unknown_id) return unknown->Unexpected("a token of \"vocab\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<PreTokenizer::Stage> ReadPreTokenizerStage(const JsonNode& node) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode type, node.Member("type"));
  if (type.value() == "ByteLevel") return ReadByteLevel(node);
  if (type.value() == "Digits") return ReadDigits(node);
  if (type.value() == "Split") return ReadSplit(node);
  return type.Unexpected("\"Split\", \"Digits\" or \"ByteLevel\"");
}

}  // namespace lockstep::router
