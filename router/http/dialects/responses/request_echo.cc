#include "router/http/dialects/responses/request_echo.h"

#include "common/json/json_text.h"
#include "router/http/json/json_writer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

// A member that is null, absent or of another kind has no text.
const json* EchoedMember(const json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Null without the member.
void EchoScalar(const json& object, std::string_view name, JsonWriter& writer) {
  writer.Key(name);
  const json* const value = EchoedMember(object, name);
  if (value == nullptr || value->is_structured()) {
    writer.Null();
  } else if (value->is_string()) {
    writer.String(value->get_ref<const std::string&>());
  } else {
    writer.Raw(value->dump());
  }
}

// A member with objects in it, as it is written. `text`: of the body.
void EchoText(const json& body, std::string_view text, std::string_view name,
              std::string_view fallback, JsonWriter& writer) {
  writer.Key(name);
  if (EchoedMember(body, name) == nullptr) {
    writer.Raw(fallback);
  } else {
    writer.Raw(CompactJson(JsonTextOfMember(text, name)));
  }
}

void EchoReasoning(const json& body, JsonWriter& writer) {
  const json* const reasoning = EchoedMember(body, "reasoning");
  const json none = json::object();
  writer.Key("reasoning").BeginObject();
  EchoScalar(reasoning == nullptr ? none : *reasoning, "effort", writer);
  EchoScalar(reasoning == nullptr ? none : *reasoning, "summary", writer);
  writer.EndObject();
}

}  // namespace

std::string RequestEcho(const json& body, std::string_view text) {
  std::string out;
  JsonWriter writer(out);
  writer.Key("background").Bool(false).Key("store").Bool(false);
  writer.Key("previous_response_id").Null().Key("truncation").String("disabled");
  writer.Key("service_tier").String("default");
  for (const std::string_view name :
       {"instructions", "max_output_tokens", "max_tool_calls", "temperature", "top_p",
        "presence_penalty", "frequency_penalty", "prompt_cache_key", "safety_identifier", "user"}) {
    EchoScalar(body, name, writer);
  }
  const json* const best = EchoedMember(body, "top_logprobs");
  writer.Key("top_logprobs").Raw(best == nullptr ? "0" : best->dump());
  const json* const parallel = EchoedMember(body, "parallel_tool_calls");
  writer.Key("parallel_tool_calls").Bool(parallel == nullptr || *parallel == true);
  EchoReasoning(body, writer);
  EchoText(body, text, "text", R"({"format":{"type":"text"}})", writer);
  EchoText(body, text, "tool_choice", R"("auto")", writer);
  EchoText(body, text, "tools", "[]", writer);
  EchoText(body, text, "metadata", "{}", writer);
  return out;
}

}  // namespace lockstep::router
