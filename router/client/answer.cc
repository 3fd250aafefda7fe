#include "router/client/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using Json = nlohmann::ordered_json;

std::string ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORT:
      return "abort";
    case v1::FINISH_REASON_TOOL_CALLS:
      return "tool_calls";
    default:
      return "unspecified";
  }
}

Json LogprobJson(const v1::TokenLogprob& entry) {
  Json json = {
      {"token_id", entry.token_id()}, {"logprob", entry.logprob()}, {"rank", entry.rank()}};
  Json top = Json::array();
  for (int i = 0; i < entry.top_ids_size(); ++i) {
    top.push_back({{"token_id", entry.top_ids(i)}, {"logprob", entry.top_logprobs(i)}});
  }
  json["top"] = std::move(top);
  return json;
}

template <typename Entries>
Json LogprobsJson(const Entries& entries) {
  Json json = Json::array();
  for (const v1::TokenLogprob& entry : entries) json.push_back(LogprobJson(entry));
  return json;
}

Json CallsJson(const std::vector<AnswerCall>& calls) {
  Json json = Json::array();
  for (const AnswerCall& call : calls) {
    json.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  return json;
}

absl::Status CheckCallOrder(const v1::OutputDelta& delta, size_t num_calls) {
  for (const v1::ToolCallDelta& call : delta.tool_calls()) {
    if (call.index() > num_calls) {
      return Internal("the server sent call {} of output {} before call {}", call.index(),
                      delta.index(), num_calls);
    }
    if (call.index() == num_calls) ++num_calls;
  }
  return absl::OkStatus();
}

void AddCall(const v1::ToolCallDelta& in, std::vector<AnswerCall>& calls) {
  if (in.index() == calls.size()) calls.emplace_back();
  AnswerCall& out = calls[in.index()];
  out.id += in.id();
  out.name += in.name();
  out.arguments += in.arguments();
}

Json OutputJson(size_t index, const AnswerOutput& output) {
  const v1::Finish& finish = output.finish;
  Json json = {{"index", index},
               {"text", output.text},
               {"token_ids", output.token_ids},
               {"finish_reason", output.finished ? ReasonName(finish.reason()) : "none"}};
  if (!output.reasoning.empty()) json["reasoning"] = output.reasoning;
  if (!output.tool_calls.empty()) json["tool_calls"] = CallsJson(output.tool_calls);
  if (finish.has_stop_string()) json["stop_string"] = finish.stop_string();
  if (finish.has_stop_token_id()) json["stop_token_id"] = finish.stop_token_id();
  json["usage"] = {{"prompt_tokens", finish.usage().prompt_tokens()},
                   {"completion_tokens", finish.usage().completion_tokens()},
                   {"cached_tokens", finish.usage().cached_tokens()},
                   {"seed", finish.usage().seed()}};
  if (finish.usage().reasoning_tokens() > 0) {
    json["usage"]["reasoning_tokens"] = finish.usage().reasoning_tokens();
  }
  json["timings"] = {
      {"queue_seconds", finish.timings().queue_seconds()},
      {"time_to_first_token_seconds", finish.timings().time_to_first_token_seconds()},
      {"total_seconds", finish.timings().total_seconds()}};
  if (!output.logprobs.empty()) json["logprobs"] = LogprobsJson(output.logprobs);
  return json;
}

// Like dump(2), but an array of numbers takes one line.
void AppendPretty(const Json& json, size_t indent, std::string& out) {
  // Text cut by max_tokens may hold U+FFFD but is always valid UTF-8; "replace" is for other
  // servers.
  const auto dump = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const bool has_parts =
      json.is_structured() &&
      std::any_of(json.begin(), json.end(), [](const Json& part) { return !part.is_number(); });
  if (json.empty() || (!json.is_object() && !has_parts)) {
    out += dump(json);
    return;
  }
  const std::string padding(indent + 2, ' ');
  out += json.is_object() ? '{' : '[';
  for (auto part = json.begin(); part != json.end(); ++part) {
    out += (part == json.begin() ? "\n" : ",\n") + padding;
    if (json.is_object()) out += dump(part.key()) + ": ";
    AppendPretty(*part, indent + 2, out);
  }
  out += "\n" + padding.substr(2) + (json.is_object() ? '}' : ']');
}

}  // namespace

std::string AnswerOutput::CallLines() const {
  std::string lines;
  for (const AnswerCall& call : tool_calls) {
    lines += fmt::format("call {} {}\n", call.name, call.arguments);
  }
  return lines;
}

absl::Status Answer::Add(const v1::GenerateResponse& response, uint32_t max_outputs) {
  const uint32_t last =
      std::max(response.delta().index(), response.finish().index());  // 0 where there is none
  if (last >= max_outputs) {
    return Internal("the server sent output {}, although {} were asked for", last, max_outputs);
  }
  const auto output = [this](uint32_t index) -> AnswerOutput& {
    if (index >= outputs.size()) outputs.resize(index + 1);
    return outputs[index];
  };
  switch (response.event_case()) {
    case v1::GenerateResponse::kPromptInfo:
      prompt_info = response.prompt_info();
      break;
    case v1::GenerateResponse::kDelta: {
      const v1::OutputDelta& delta = response.delta();
      const size_t num_calls =
          delta.index() < outputs.size() ? outputs[delta.index()].tool_calls.size() : 0;
      LOCKSTEP_RETURN_IF_ERROR(CheckCallOrder(delta, num_calls));
      AnswerOutput& target = output(delta.index());
      for (const v1::ToolCallDelta& call : delta.tool_calls()) AddCall(call, target.tool_calls);
      target.text += delta.text();
      target.reasoning += delta.reasoning();
      target.token_ids.insert(target.token_ids.end(), delta.token_ids().begin(),
                              delta.token_ids().end());
      target.logprobs.insert(target.logprobs.end(), delta.logprobs().begin(),
                             delta.logprobs().end());
      break;
    }
    case v1::GenerateResponse::kFinish: {
      AnswerOutput& target = output(response.finish().index());
      target.finished = true;
      target.finish = response.finish();
      break;
    }
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

bool Answer::complete() const {
  return !outputs.empty() &&
         std::all_of(outputs.begin(), outputs.end(),
                     [](const AnswerOutput& output) { return output.finished; });
}

std::string Answer::ToJson(const std::string& model) const {
  Json json = {{"request_id", prompt_info.request_id()},
               {"model", model},
               {"prompt_tokens", prompt_info.prompt_tokens()},
               {"cached_tokens", prompt_info.cached_tokens()}};
  if (prompt_info.prompt_logprobs_size() > 0) {
    json["prompt_logprobs"] = LogprobsJson(prompt_info.prompt_logprobs());
  }
  json["outputs"] = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) json["outputs"].push_back(OutputJson(i, outputs[i]));
  std::string out;
  AppendPretty(json, 0, out);
  return out;
}

std::string Answer::StatsLine() const {
  uint64_t num_tokens = 0;
  double first = 0;
  double last = 0;
  for (const AnswerOutput& output : outputs) {
    const v1::Timings& timings = output.finish.timings();
    num_tokens += output.token_ids.size();
    const double ttft = timings.time_to_first_token_seconds();
    first = first == 0 ? ttft : std::min(first, ttft);
    last = std::max(last, timings.total_seconds());
  }
  // The rate is that of decoding: the first tokens belong to the prompt's time.
  const uint64_t num_decoded = num_tokens > outputs.size() ? num_tokens - outputs.size() : 0;
  const double rate = last > first ? static_cast<double>(num_decoded) / (last - first) : 0;
  return fmt::format(
      "{} prompt tokens ({} cached), {} tokens, {:.1f} tokens/s, first token after {:.3f} s",
      prompt_info.prompt_tokens(), prompt_info.cached_tokens(), num_tokens, rate, first);
}

}  // namespace lockstep::router
