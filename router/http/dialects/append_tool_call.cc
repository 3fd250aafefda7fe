#include "router/http/dialects/append_tool_call.h"

#include "router/http/json/json_writer.h"

namespace lockstep::router {

void AppendToolCall(std::optional<std::string_view> id, std::string_view name,
                    std::string_view arguments, std::string& calls) {
  if (calls.empty()) {
    calls = '[';
  } else {
    calls.back() = ',';
  }
  JsonWriter writer(calls);
  writer.BeginObject();
  if (id.has_value()) writer.Key("id").String(*id);
  writer.Key("type").String("function").Key("function").BeginObject();
  writer.Key("name").String(name).Key("arguments").String(arguments);
  writer.EndObject().EndObject();
  calls += ']';
}

}  // namespace lockstep::router
