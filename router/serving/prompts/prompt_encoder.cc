#include "router/serving/prompts/prompt_encoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"
#include "router/serving/prompts/open_message.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr JsonLimits kArgumentLimits = {.max_depth = 16, .max_values = 10'000};
constexpr std::string_view kArgumentsPath = "chat.template_arguments_json";
// Arguments that the rendering sets itself.
constexpr std::array<std::string_view, 4> kReservedArguments = {"messages", "add_generation_prompt",
                                                                "bos_token", "eos_token"};

absl::StatusOr<json> ParseArguments(std::string_view text) {
  if (text.empty()) return json(nullptr);
  absl::StatusOr<json> parsed = ParseJson(text, kArgumentsPath, kArgumentLimits);
  if (!parsed.ok()) return InvalidArgument("{}", Message(parsed.status()));
  if (!parsed->is_object()) {
    return InvalidArgument("{}: expected one JSON object, got {}", kArgumentsPath,
                           parsed->type_name());
  }
  for (const std::string_view name : kReservedArguments) {
    if (parsed->contains(name)) {
      return InvalidArgument("{}: \"{}\" is set by the router", kArgumentsPath, name);
    }
  }
  return parsed;
}

// Calls `visit` for every string in `value`, keys included.
template <typename Visit>
void VisitStrings(const json& value, const Visit& visit) {
  if (value.is_string()) visit(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) visit(std::string_view(key));
  }
  if (value.is_structured()) {
    for (const json& member : value) VisitStrings(member, visit);
  }
}

}  // namespace

PromptEncoder::PromptEncoder(const ServedModel& model, bool parse_special)
    : model_(model), parse_special_(parse_special), spellings_(*model.tokenizer) {}

size_t PromptEncoder::NumWorkBytes(const v1::ChatPrompt& chat) {
  size_t num_bytes = chat.template_arguments_json().size();
  for (const v1::ChatMessage& message : chat.messages()) {
    num_bytes += kMessageWorkBytes + message.role().size() + message.content().size() +
                 message.name().size();
  }
  return chat.template_arguments_json().empty() ? num_bytes : 2 * num_bytes;
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::Encode(const v1::GenerateRequest& request,
                                                           const CancelFlag* cancellation) const {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = request.token_ids().ids();
      return std::vector<TokenId>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kText:
      return EncodeText(request.text(), {.add_special_tokens = true,
                                         .parse_special_tokens = ParsesSpecial(request),
                                         .cancellation = cancellation});
    case v1::GenerateRequest::kChat:
      return EncodeChat(request.chat(), cancellation);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("prompt: expected one of text, token_ids, chat, got none");
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(
    std::string_view text, const Tokenizer::EncodeOptions& options) const {
  auto ids = model_.tokenizer->Encode(text, options);
  if (!ids.ok()) return Annotate(ids.status(), "text");
  return ids;
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeChat(
    const v1::ChatPrompt& chat, const CancelFlag* cancellation) const {
  using Pieces = std::vector<ForeignText::Piece>;
  LOCKSTEP_ASSIGN_OR_RETURN(Pieces pieces, Render(chat, /*mask_borders=*/false));
  const bool open_border = std::any_of(chat.messages().begin(), chat.messages().end(),
                                       [this](const v1::ChatMessage& message) {
                                         return spellings_.OpenSuffixSize(message.content()) > 0 ||
                                                spellings_.OpenPrefixSize(message.content()) > 0;
                                       });
  if (open_border || !chat.template_arguments_json().empty()) {
    if (IsCancelled(cancellation)) return absl::CancelledError("the chat is not wanted any more");
    // If hiding the borders of the texts changes the special tokens, a border was part of one.
    LOCKSTEP_ASSIGN_OR_RETURN(Pieces bordered, Render(chat, /*mask_borders=*/true));
    if (SpecialsOf(bordered) != SpecialsOf(pieces)) pieces = std::move(bordered);
  }
  std::vector<TokenId> all;
  for (const ForeignText::Piece& piece : pieces) {
    auto ids = model_.tokenizer->Encode(piece.text, {.add_special_tokens = false,
                                                     .parse_special_tokens = !piece.foreign,
                                                     .cancellation = cancellation});
    if (!ids.ok()) return Annotate(ids.status(), "chat");
    all.insert(all.end(), ids->begin(), ids->end());
  }
  return all;
}

absl::StatusOr<std::vector<ForeignText::Piece>> PromptEncoder::Render(const v1::ChatPrompt& chat,
                                                                      bool mask_borders) const {
  LOCKSTEP_ASSIGN_OR_RETURN(json arguments, ParseArguments(chat.template_arguments_json()));
  std::vector<std::string_view> texts;
  for (const v1::ChatMessage& message : chat.messages()) {
    texts.insert(texts.end(), {message.content(), message.role(), message.name()});
  }
  VisitStrings(arguments, [&texts](std::string_view text) { texts.push_back(text); });

  ForeignText foreign(spellings_, texts, mask_borders);
  std::vector<ChatMessage> messages;
  for (const v1::ChatMessage& message : chat.messages()) {
    messages.push_back({.role = message.role(),
                        .content = foreign.Mask(message.content()),
                        .name = message.name()});
  }
  const bool continued = chat.continue_final_message();
  const std::string last_text = messages.back().content;
  const std::string place = continued ? foreign.MarkPlace() : "";
  if (continued) messages.back().content += OpenEnd(place);
  ChatTemplate::RenderOptions options;
  options.add_generation_prompt =
      chat.has_add_generation_prompt() ? chat.add_generation_prompt() : !continued;
  if (arguments.is_object()) {
    // Keys are masked too, because a template may print them. Members keep the client's order, so
    // that tools are printed as transformers prints them.
    options.extra_arguments_json =
        RewriteJson(chat.template_arguments_json(),
                    [&foreign](const std::string& text) { return foreign.Mask(text); });
  }
  absl::StatusOr<std::string> rendered = model_.chat_template->Render(messages, options);
  if (!rendered.ok()) return Annotate(rendered.status(), "chat");
  if (continued) {
    LOCKSTEP_ASSIGN_OR_RETURN(*rendered, CutAtOpenEnd(*rendered, last_text, place));
  }
  return foreign.Unmask(*rendered);
}

std::vector<std::string> PromptEncoder::SpecialsOf(
    const std::vector<ForeignText::Piece>& pieces) const {
  std::vector<std::string> specials;
  for (const ForeignText::Piece& piece : pieces) {
    if (piece.foreign) continue;
    for (const SpecialSpellings::Match& match : spellings_.FindAll(piece.text)) {
      specials.push_back(piece.text.substr(match.begin, match.size));
    }
  }
  return specials;
}

}  // namespace lockstep::router
