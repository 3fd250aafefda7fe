#include "router/serving/prompts/prompt_encoder.h"

#include <array>
#include <string>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"
#include "router/serving/prompts/open_message.h"
#include "router/serving/prompts/text_marks.h"
#include "router/serving/prompts/tool_calls_json.h"
#include "router/serving/validation/request_validator.h"
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

absl::Status CheckArguments(const v1::ChatPrompt& chat) {
  const std::string& text = chat.template_arguments_json();
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
  if (!chat.tools_json().empty() && parsed->contains("tools")) {
    return InvalidArgument("{}: \"tools\" is set by chat.tools_json", kArgumentsPath);
  }
  return absl::OkStatus();
}

// The tools that the template sees.
std::string_view ShownTools(const v1::ChatPrompt& chat) {
  const bool hidden = chat.tool_choice().mode() == v1::ToolChoice::NONE;
  return hidden ? std::string_view() : std::string_view(chat.tools_json());
}

// A message as the template sees it.
absl::StatusOr<ChatMessage> MessageOf(const v1::ChatMessage& in, const std::string& path) {
  const std::pair<const std::string&, std::string_view> texts[] = {
      {in.content(), "content"},
      {in.tool_call_id(), "tool_call_id"},
      {in.reasoning(), "reasoning"}};
  for (const auto& [text, name] : texts) {
    if (const auto offset = FindInvalidUtf8(text)) {
      return InvalidArgument("{}.{}: is not valid UTF-8 at byte {}", path, name, *offset);
    }
  }
  ChatMessage out = {.role = in.role(), .content = in.content(), .name = in.name()};
  out.tool_call_id = in.tool_call_id();
  out.reasoning = in.reasoning();
  if (!in.tool_calls_json().empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        out.tool_calls_json, ToolCallsForTemplate(in.tool_calls_json(), path + ".tool_calls_json"));
  }
  return out;
}

}  // namespace

PromptEncoder::PromptEncoder(const ServedModel& model, bool parse_special)
    : model_(model), parse_special_(parse_special), spellings_(*model.tokenizer) {}

size_t PromptEncoder::NumWorkBytes(const v1::ChatPrompt& chat) {
  const size_t num_json_bytes = chat.template_arguments_json().size() + chat.tools_json().size();
  size_t num_bytes = num_json_bytes;
  for (const v1::ChatMessage& message : chat.messages()) {
    num_bytes += kMessageWorkBytes + NumTextBytes(message) + message.tool_calls_json().size();
  }
  return num_json_bytes == 0 ? num_bytes : 2 * num_bytes;
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
  LOCKSTEP_RETURN_IF_ERROR(CheckArguments(chat));
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
std::string PromptEncoder::MarkJson(std::string_view json, TextMarks& marks) const {
  // An escape may stand for any character.
  if (json.find('\\') == std::string_view::npos && !spellings_.MayBeIn(json)) {
    return std::string(json);
  }
  return RewriteJson(json, [&marks](const std::string& text) { return marks.Mark(text); });
}

ChatMessage PromptEncoder::MarkMessage(const ChatMessage& message, TextMarks& marks) const {
  // Roles and names have no characters that could spell a special token (CheckChat).
  ChatMessage marked = {
      .role = message.role, .content = marks.Mark(message.content), .name = message.name};
  marked.tool_calls_json = MarkJson(message.tool_calls_json, marks);
  marked.tool_call_id = marks.Mark(message.tool_call_id);
  marked.reasoning = marks.Mark(message.reasoning);
  return marked;
}

absl::StatusOr<std::vector<ChatPiece>> PromptEncoder::Render(const v1::ChatPrompt& chat) const {
  TextMarks marks(spellings_);
  TemplateInput plain;
  TemplateInput marked;
  for (int i = 0; i < chat.messages_size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(ChatMessage message,
                              MessageOf(chat.messages(i), fmt::format("chat.messages[{}]", i)));
    marked.messages.push_back(MarkMessage(message, marks));
    plain.messages.push_back(std::move(message));
  }
  plain.options.extra_arguments_json = chat.template_arguments_json();
  plain.options.tools_json = ShownTools(chat);
  marked.options.extra_arguments_json = MarkJson(plain.options.extra_arguments_json, marks);
  marked.options.tools_json = MarkJson(plain.options.tools_json, marks);
  LOCKSTEP_ASSIGN_OR_RETURN(std::string rendered, RenderOnce(chat, std::move(plain)));
  if (!marks.has_marked())
    return std::vector<ChatPiece>{{.text = std::move(rendered), .foreign = false}};
  LOCKSTEP_ASSIGN_OR_RETURN(marked.options.marked_characters, marks.characters());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string with_marks, RenderOnce(chat, std::move(marked)));
  return SeparateForeign(spellings_, std::move(rendered), with_marks, marks);
}

absl::StatusOr<std::string> PromptEncoder::RenderOnce(const v1::ChatPrompt& chat,
                                                      TemplateInput input) const {
  const bool continued = chat.continue_final_message();
  if (continued) input.messages.back().content += kOpenEnd;
  input.options.add_generation_prompt =
      chat.has_add_generation_prompt() ? chat.add_generation_prompt() : !continued;
  absl::StatusOr<std::string> rendered =
      model_.chat_template->Render(input.messages, input.options);
  if (!rendered.ok()) return Annotate(rendered.status(), "chat");
  if (!continued) return rendered;
  // The rendering without marks was already checked to contain the message's text.
  const std::string& last = chat.messages(chat.messages_size() - 1).content();
  const bool is_marked = !input.options.marked_characters.empty();
  return CutAtOpenEnd(*rendered, is_marked ? std::string_view() : std::string_view(last));
}

}  // namespace lockstep::router
