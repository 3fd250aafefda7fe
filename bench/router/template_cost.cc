// lockstep-template-cost: how long the renderer of chat templates takes to start, and a rendering
// there and back. Prints one line for each template and length of a chat.
//
//   lockstep-template-cost [PYTHON]
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/templates/renderer_pool.h"

namespace lockstep::router {
namespace {

constexpr char kChatMl[] = R"({% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{% endif %}
)";

// What templates of models with tools and thinking do: two passes, a namespace, splits.
constexpr char kThinking[] = R"({%- if tools %}
{{- '<|im_start|>system\n# Tools\n' }}
{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=messages | length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and message.content is string %}
        {%- set ns.searching = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\n')
            .split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {%- if loop.index0 > ns.last and thought %}
        {{- '<|im_start|>' + message.role + '\n<think>\n' + thought + '\n</think>\n\n' + content }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
)";

std::vector<ChatMessage> Chat(size_t num_messages) {
  std::vector<ChatMessage> chat;
  for (size_t i = 0; i < num_messages; ++i) {
    const bool user = i % 2 == 0;
    chat.push_back({.role = user ? "user" : "assistant",
                    .content = user ? "Which of the two cities is larger, and by how much? Say why."
                                    : "<think>\nCompare both.\n</think>\n\nThe first, by a third.",
                    .name = ""});
  }
  return chat;
}

void Measure(const std::string& python, std::string_view name, const std::string& text,
             size_t num_messages, const std::string& arguments) {
  constexpr int kWarmUp = 200;
  constexpr int kRenderings = 5000;
  RendererPoolConfig config;
  config.program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-template-renderer";
  config.python = python;
  config.limits.time = absl::Seconds(5);  // by the clock of a busy machine
  const absl::Time start = absl::Now();
  const auto caged = CagedTemplate::Start(config, {.templates = {{"default", text}}});
  LOCKSTEP_CHECK(caged.ok(), "{}", Message(caged.status()));
  const double start_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  const std::vector<ChatMessage> chat = Chat(num_messages);
  std::vector<double> micros;
  for (int i = 0; i < kWarmUp + kRenderings; ++i) {
    const absl::Time begin = absl::Now();
    const auto rendered = (*caged)->Render(chat, {.add_generation_prompt = true,
                                                  .extra_arguments_json = arguments,
                                                  .marked_characters = {}});
    LOCKSTEP_CHECK(rendered.ok(), "{}", Message(rendered.status()));
    if (i >= kWarmUp) micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
  }
  std::sort(micros.begin(), micros.end());
  fmt::print(
      "{:<10} {:>4} messages: p50 {:.0f} us, p99 {:.0f} us, most {:.0f} us; start {:.0f} ms\n",
      name, num_messages, micros[micros.size() / 2], micros[micros.size() * 99 / 100],
      micros.back(), start_ms);
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) {
  using lockstep::router::Measure;
  const std::string python = argc > 1 ? argv[1] : "/usr/bin/python3";
  const std::string arguments =
      R"({"enable_thinking": false, "tools": [{"type": "function", "function": {"name": "f"}}]})";
  for (const size_t num_messages : {size_t{2}, size_t{10}, size_t{20}, size_t{500}}) {
    Measure(python, "ChatML", lockstep::router::kChatMl, num_messages, "");
    Measure(python, "thinking", lockstep::router::kThinking, num_messages, arguments);
  }
  return 0;
}
