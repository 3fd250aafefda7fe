#include <absl/status/status.h>
#include <fmt/format.h>

#include <string>

#include "router/calls/output_format_table.h"
#include "router/calls/scanners/literal_scanner.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

// A row for each way to write calls. A model gets the first row that fits its template and its
// vocabulary, so rows with rarer marks stand first.
// docs/adding/tool-format.md explains how to add one.
constexpr OutputFormat kFormats[] = {
    // gpt-oss. <|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
    {.name = "harmony",
     .think_open = "<|channel|>analysis<|message|>",
     .think_end = "<|end|>",
     .style = CallStyle::kHarmony,
     .tags = {.name_prefix = "functions."},
     .frame = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>",
               "<|return|>"},
     .in_template = {"<|channel|>", "<|message|>"},
     .in_vocabulary = {"<|channel|>", "<|message|>"}},
    // Gemma 4. <|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|>
    {.name = "gemma4",
     .think_open = "<|channel>thought\n",
     .think_end = "<channel|>",
     .thinks_anywhere = true,
     .style = CallStyle::kTagged,
     .arguments = ArgumentStyle::kGemma,
     .tags = {.call_open = "<|tool_call>call:", .call_end = "<tool_call|>"},
     .in_template = {"<|tool_call>"},
     .in_vocabulary = {"<|tool_call>"}},
    // DeepSeek V3.2. The markers are spelled, and the string="..." says which values are strings.
    {.name = "deepseek_v32",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .style = CallStyle::kTagged,
     .tags = {.block_open = "<｜DSML｜function_calls>",
              .call_open = "<｜DSML｜invoke name=\"",
              .name_end = "\">",
              .key_open = "<｜DSML｜parameter name=\"",
              .key_end = "\" string=\"",
              .value_open = "false\">",
              .string_open = "true\">",
              .value_end = "</｜DSML｜parameter>",
              .call_end = "</｜DSML｜invoke>",
              .block_end = "</｜DSML｜function_calls>"},
     .in_template = {"DSML", "function_calls>"}},
    // DeepSeek V3 and R1. The arguments are fenced like code.
    {.name = "deepseek_v3",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .style = CallStyle::kTagged,
     .arguments = ArgumentStyle::kJson,
     .tags = {.block_open = "<｜tool▁calls▁begin｜>",
              .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
              .fence_open = "```json",
              .fence_end = "```",
              .call_end = "<｜tool▁call▁end｜>",
              .block_end = "<｜tool▁calls▁end｜>"},
     .block_is_optional = true,
     .in_template = {"<｜tool▁call▁begin｜>", "```json"},
     .in_vocabulary = {"<｜tool▁call▁begin｜>"}},
    // DeepSeek V3.1.
    {.name = "deepseek_v31",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .style = CallStyle::kTagged,
     .arguments = ArgumentStyle::kJson,
     .tags = {.block_open = "<｜tool▁calls▁begin｜>",
              .call_open = "<｜tool▁call▁begin｜>",
              .name_end = "<｜tool▁sep｜>",
              .call_end = "<｜tool▁call▁end｜>",
              .block_end = "<｜tool▁calls▁end｜>"},
     .block_is_optional = true,
     .in_template = {"<｜tool▁call▁begin｜>"},
     .in_vocabulary = {"<｜tool▁call▁begin｜>"}},
    // Kimi K2. A name is written "functions.f:0".
    {.name = "kimi_k2",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .style = CallStyle::kTagged,
     .arguments = ArgumentStyle::kJson,
     .tags = {.block_open = "<|tool_calls_section_begin|>",
              .call_open = "<|tool_call_begin|>",
              .name_prefix = "functions.",
              .name_cut = ":",
              .name_end = "<|tool_call_argument_begin|>",
              .call_end = "<|tool_call_end|>",
              .block_end = "<|tool_calls_section_end|>"},
     .block_is_optional = true,
     .in_template = {"<|tool_call_begin|>"},
     .in_vocabulary = {"<|tool_call_begin|>"}},
    // GLM 4.5 to 4.7.
    {.name = "glm47",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .calls_in_reasoning = true,
     .style = CallStyle::kTagged,
     .tags = {.call_open = "<tool_call>",
              .key_open = "<arg_key>",
              .key_end = "</arg_key>",
              .value_open = "<arg_value>",
              .value_end = "</arg_value>",
              .call_end = "</tool_call>"},
     .in_template = {"<arg_key>", "<tool_call>"}},
    // MiniMax M2.
    {.name = "minimax_m2",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .style = CallStyle::kTagged,
     .tags = {.block_open = "<minimax:tool_call>",
              .call_open = "<invoke name=\"",
              .name_end = "\">",
              .key_open = "<parameter name=\"",
              .key_end = "\">",
              .value_end = "</parameter>",
              .call_end = "</invoke>",
              .block_end = "</minimax:tool_call>"},
     .in_template = {"minimax:tool_call", "<invoke name="}},
    // Qwen3-Coder, Qwen3.5. The tag around a call is often missing.
    {.name = "qwen3_coder",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .calls_in_reasoning = true,
     .style = CallStyle::kTagged,
     .tags = {.block_open = "<tool_call>",
              .call_open = "<function=",
              .name_end = ">",
              .key_open = "<parameter=",
              .key_end = ">",
              .value_end = "</parameter>",
              .trims_values = true,
              .call_end = "</function>",
              .block_end = "</tool_call>"},
     .block_is_optional = true,
     .in_template = {"<function=", "<parameter=", "<tool_call>"}},
    // Mistral. Up to tokenizer v10 a list of JSON objects, from v11 a name and its arguments.
    {.name = "mistral",
     .think_open = "[THINK]",
     .think_end = "[/THINK]",
     .thinks_anywhere = true,
     .style = CallStyle::kJsonOrTagged,
     .arguments = ArgumentStyle::kJson,
     .tags = {.call_open = "[TOOL_CALLS]", .id_open = "[CALL_ID]", .name_end = "[ARGS]"},
     .short_ids = true,
     .in_template = {"[TOOL_CALLS]"},
     .in_vocabulary = {"[TOOL_CALLS]"}},
    // Qwen2.5, Qwen3, Hermes. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>
    {.name = "hermes",
     .think_open = kThink,
     .think_end = kThinkEnd,
     .calls_in_reasoning = true,
     .style = CallStyle::kJson,
     .tags = {.block_open = "<tool_call>", .block_end = "</tool_call>"},
     .in_template = {"<tool_call>", "arguments"}},
    // Llama 4, Gemma 3 and others. [f(a=1, b="x"), g()]
    {.name = "pythonic",
     .style = CallStyle::kPython,
     .tags = {.block_open = "<|python_start|>", .block_end = "<|python_end|>"},
     .whole_message = "[",
     .in_template = {"[func_name1("}},
    // Llama 3.1 to 3.3. {"name": "f", "parameters": {"a": 1}}
    {.name = "llama3",
     .style = CallStyle::kJson,
     .tags = {.block_open = "<|python_tag|>"},
     .whole_message = "{",
     .arguments_key = "parameters",
     .in_template = {"\"parameters\": ", "ipython"},
     .in_vocabulary = {"<|python_tag|>"}},
    // Llama 4. The same between other tokens.
    {.name = "llama4",
     .style = CallStyle::kJson,
     .tags = {.block_open = "<|python_start|>", .block_end = "<|python_end|>"},
     .whole_message = "{",
     .arguments_key = "parameters",
     .in_template = {"\"parameters\": "},
     .in_vocabulary = {"<|python_start|>"}},
    // Models that reason and call nothing.
    {.name = "think", .think_open = kThink, .think_end = kThinkEnd, .in_template = {"</think>"}},
};

}  // namespace

std::span<const OutputFormat> OutputFormats() { return kFormats; }

std::string_view NameOf(const OutputFormat& format) { return format.name; }
bool HasCalls(const OutputFormat& format) { return format.style != CallStyle::kNone; }
bool HasReasoning(const OutputFormat& format) { return !format.think_open.empty(); }

absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name) {
  std::string names;
  for (const OutputFormat& format : kFormats) {
    if (format.name == name) return &format;
    names += names.empty() ? "" : ", ";
    names += format.name;
  }
  return absl::NotFoundError(
      fmt::format("there is no tool format \"{}\"; there are: {}", name, names));
}

bool IsMarker(const OutputFormat& format, std::string_view spelling) {
  if (spelling.empty()) return false;
  const auto has = [&](std::string_view tag) {
    return tag.find(spelling) != std::string_view::npos;
  };
  const CallTags& tags = format.tags;
  for (const std::string_view tag :
       {format.think_open, format.think_end, tags.block_open, tags.call_open, tags.id_open,
        tags.name_end, tags.key_open, tags.key_end, tags.value_open, tags.string_open,
        tags.value_end, tags.fence_open, tags.fence_end, tags.call_end, tags.block_end}) {
    if (has(tag)) return true;
  }
  for (const std::string_view tag : format.frame) {
    if (has(tag)) return true;
  }
  return format.arguments == ArgumentStyle::kGemma && spelling == kGemmaDelimiter;
}

}  // namespace lockstep::router
