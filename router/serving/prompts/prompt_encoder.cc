#include "router/serving/prompts/prompt_encoder.h"

#include <array>
#include <string>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"
#include "router/serving/prompts/open_message.h"
#include "router/serving/prompts/text_marks.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr JsonLimits kArgumentLimits = {.max_depth = 16, .max_values = 10'000};
constexpr std::string_view kArgumentsPath = "chat.template_arguments_json";
// Arguments that the rendering sets itself.
constexpr std::array<std::string_view, 4> kReservedArguments = {"messages", "add_generation_prompt",
                                                                "bos_token", "eos_token"};

absl::Status CheckArguments(std::string_view text) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<json> parsed = ParseJson(text, kArgumentsPath, kArgumentLimits);
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
  return absl::OkStatus();
}

absl::Status CheckTexts(const v1::ChatPrompt& chat) {
  for (int i = 0; i < chat.messages_size(); ++i) {
    if (const auto offset = FindInvalidUtf8(chat.messages(i).content())) {
      return InvalidArgument("chat.messages[{}].content: is not valid UTF-8 at byte {}", i,
                             *offset);
    }
  }
  return absl::OkStatus();
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
  return InvalidArgument("prompt: expected one of text, token_ids, chat, got none");
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(
    std::string_view text, const Tokenizer::EncodeOptions& options) const {
  auto ids = model_.tokenizer->Encode(text, options);
  if (!ids.ok()) return Annotate(ids.status(), "text");
  return ids;
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeChat(
    const v1::ChatPrompt& chat, const CancelFlag* cancellation) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckTexts(chat));
  LOCKSTEP_RETURN_IF_ERROR(CheckArguments(chat.template_arguments_json()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ChatPiece> pieces, Render(chat));
  std::vector<TokenId> all;
  for (const ChatPiece& piece : pieces) {
    auto ids = model_.tokenizer->Encode(piece.text, {.add_special_tokens = false,
                                                     .parse_special_tokens = !piece.foreign,
                                                     .cancellation = cancellation});
    if (!ids.ok()) return Annotate(ids.status(), "chat");
    if (all.empty()) {
      all = *std::move(ids);
    } else {
      all.insert(all.end(), ids->begin(), ids->end());
    }
  }
  return all;
}

// Keys are marked too, because a template may print them. Members keep the client's order, so that
// tools are printed as transformers prints them.
std::string PromptEncoder::MarkArguments(const std::string& arguments, TextMarks& marks) const {
  // An escape may stand for any character.
  if (arguments.find('\\') == std::string::npos && !spellings_.MayBeIn(arguments)) {
    return arguments;
  }
  return RewriteJson(arguments, [&marks](const std::string& text) { return marks.Mark(text); });
}

absl::StatusOr<std::vector<ChatPiece>> PromptEncoder::Render(const v1::ChatPrompt& chat) const {
  TextMarks marks(spellings_);
  std::vector<ChatMessage> plain;
  std::vector<ChatMessage> marked;
  for (const v1::ChatMessage& message : chat.messages()) {
    plain.push_back({.role = message.role(), .content = message.content(), .name = message.name()});
    // Roles and names have no characters that could spell a special token (CheckChat).
    marked.push_back(
        {.role = message.role(), .content = marks.Mark(message.content()), .name = message.name()});
  }
  const std::string& arguments = chat.template_arguments_json();
  const std::string marked_arguments = MarkArguments(arguments, marks);
  LOCKSTEP_ASSIGN_OR_RETURN(std::string rendered, RenderOnce(chat, std::move(plain), arguments));
  if (!marks.has_marked())
    return std::vector<ChatPiece>{{.text = std::move(rendered), .foreign = false}};
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string characters, marks.characters());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string with_marks,
                            RenderOnce(chat, std::move(marked), marked_arguments, characters));
  return SeparateForeign(spellings_, std::move(rendered), with_marks, marks);
}

absl::StatusOr<std::string> PromptEncoder::RenderOnce(const v1::ChatPrompt& chat,
                                                      std::vector<ChatMessage> messages,
                                                      const std::string& arguments,
                                                      const std::string& marked_characters) const {
  const bool continued = chat.continue_final_message();
  if (continued) messages.back().content += kOpenEnd;
  absl::StatusOr<std::string> rendered = model_.chat_template->Render(
      messages, {.add_generation_prompt =
                     chat.has_add_generation_prompt() ? chat.add_generation_prompt() : !continued,
                 .extra_arguments_json = arguments,
                 .marked_characters = marked_characters});
  if (!rendered.ok()) return Annotate(rendered.status(), "chat");
  if (!continued) return rendered;
  // The rendering without marks was already checked to contain the message's text.
  const std::string& last = chat.messages(chat.messages_size() - 1).content();
  return CutAtOpenEnd(*rendered, marked_characters.empty() ? std::string_view(last) : "");
}

}  // namespace lockstep::router
