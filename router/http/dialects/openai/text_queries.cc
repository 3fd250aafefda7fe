#include "router/http/dialects/openai/text_queries.h"

#include <optional>
#include <vector>

#include "common/status.h"
#include "router/http/dialects/openai/body/chat_fields.h"
#include "router/http/dialects/openai/body/unserved_fields.h"

namespace lockstep::router {

using nlohmann::json;

absl::StatusOr<TokenizeQuery> ParseTokenizeRequest(std::string_view body,
                                                   const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  TokenizeQuery out;
  out.request.set_model(fields.String("model").value_or(""));
  out.token_strings = fields.Bool("return_token_strs").value_or(false);
  const std::optional<bool> add_special_tokens = fields.Bool("add_special_tokens");
  const std::optional<bool> parse_special = fields.Bool("parse_special");
  if (parsed.contains("messages")) {
    if (fields.Find("prompt") != nullptr) {
      fields.Fail(InvalidArgument("prompt: expected without \"messages\""));
    }
    if (add_special_tokens.value_or(false)) {
      fields.Fail(InvalidArgument(
          "add_special_tokens: expected with \"prompt\" only, as a chat's template sets its own"));
    }
    if (parse_special.value_or(false)) {
      fields.Fail(InvalidArgument(
          "parse_special: expected with \"prompt\" only, as messages never have special tokens"));
    }
    ReadChat(fields, *out.request.mutable_chat());
  } else if (const std::optional<std::string> prompt = fields.String("prompt")) {
    out.request.set_text(*prompt);
    if (parse_special.has_value()) out.request.set_parse_special(*parse_special);
    if (add_special_tokens.has_value()) out.request.set_add_special_tokens(*add_special_tokens);
  } else {
    fields.Fail(InvalidArgument("prompt: expected a string, or \"messages\""));
  }
  // Otherwise fields that a completion refuses would be ignored here, and the count would be wrong.
  fields.Refuse(UnservedOfEveryRequest());
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

absl::StatusOr<DetokenizeQuery> ParseDetokenizeRequest(std::string_view body,
                                                       const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  DetokenizeQuery out;
  out.request.set_model(fields.String("model").value_or(""));
  const std::vector<uint32_t> ids = fields.TokenIds("tokens");
  if (!parsed.contains("tokens")) {
    fields.Fail(InvalidArgument("tokens: expected an array of token ids, got none"));
  }
  out.request.mutable_token_ids()->Assign(ids.begin(), ids.end());
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

}  // namespace lockstep::router
