#include "router/templates/template_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<ChatMessage> kTalk = {
    {"system", "Be brief.", ""}, {"user", " Hi ", "ann"}, {"assistant", "Hello", ""}};

absl::StatusOr<std::unique_ptr<const ChatTemplate>> ParseKnown(std::string_view source) {
  return ParseTemplate({.text = std::string(source), .bos_token = "<s>", .eos_token = "</s>"});
}

absl::StatusOr<std::string> ParseAndRender(std::string_view source,
                                           std::span<const ChatMessage> messages = kTalk,
                                           const ChatTemplate::RenderOptions& options = {}) {
  const auto parsed = ParseKnown(source);
  if (!parsed.ok()) return parsed.status();
  return (*parsed)->Render(messages, options);
}

std::string Rendered(std::string_view source, const ChatTemplate::RenderOptions& options = {}) {
  const auto text = ParseAndRender(source, kTalk, options);
  EXPECT_TRUE(text.ok()) << source << ": " << text.status();
  return text.ok() ? *text : std::string();
}

std::string ErrorOf(std::string_view source, const ChatTemplate::RenderOptions& options = {}) {
  const auto text = ParseAndRender(source, kTalk, options);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << source;
  return Message(text.status());
}

TEST(TemplateEngineTest, RendersMessagesAndTokens) {
  constexpr std::string_view kSource =
      "{{ bos_token }}{% for m in messages %}[{{ m.role }}|{{ m['content'] | trim }}]{% endfor %}"
      "{% if add_generation_prompt %}>{% endif %}{{ eos_token }}";
  EXPECT_EQ(Rendered(kSource), "<s>[system|Be brief.][user|Hi][assistant|Hello]></s>");
  EXPECT_EQ(Rendered(kSource, {.add_generation_prompt = false, .extra_arguments_json = ""}),
            "<s>[system|Be brief.][user|Hi][assistant|Hello]</s>");
}

TEST(TemplateEngineTest, BlocksTakeTheirLineAlong) {
  EXPECT_EQ(Rendered("{%- if true %}\n  a\n  {% endif %}\nb\n"), "  a\nb");
  EXPECT_EQ(Rendered("x {#- gone -#} y"), "xy");
}

TEST(TemplateEngineTest, ANameIsThereOnlyIfGiven) {
  EXPECT_EQ(
      Rendered(
          "{% for m in messages %}{% if m.name is defined %}{{ m.name }}{% endif %}{% endfor %}"),
      "ann");
}

// The constructs of public templates: reversed search, namespaces, macros, slices, tests, filters.
TEST(TemplateEngineTest, RendersWhatPublicTemplatesUse) {
  EXPECT_EQ(Rendered("{%- set ns = namespace(last=-1) %}{%- for m in messages[::-1] %}"
                     "{%- set i = (messages|length - 1) - loop.index0 %}"
                     "{%- if m.role == 'user' and ns.last < 0 %}{%- set ns.last = i %}{%- endif %}"
                     "{%- endfor %}{{ ns.last }}"),
            "1");
  EXPECT_EQ(
      Rendered("{%- macro line(m, mark='#') %}{{ mark ~ m.role }}{% endmacro %}"
               "{%- for m in messages[1:] %}{{ line(m) }}{{ line(m, mark='+') }}{% endfor %}"),
      "#user+user#assistant+assistant");
  EXPECT_EQ(Rendered("{% for m in messages %}{{ loop.index0 % 2 == 0 }} {% endfor %}"),
            "True False True ");
  EXPECT_EQ(Rendered("{{ {'b': [1, true, none]} | tojson }}"), "{\"b\": [1, true, null]}");
  EXPECT_EQ(Rendered("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"),
            "1");
  EXPECT_EQ(Rendered("{{ 'a-b'.split('-')[-1] }}{{ 'Abc'.startswith('A') }}{{ 'x' in 'xyz' }}"),
            "bTrueTrue");
  EXPECT_EQ(
      Rendered("{% set a = [3, 1, 2] %}{{ a | first }}{{ a | last }}{{ a | sort | join(',') }}"
               "{{ a | reverse | first }}"),
      "321,2,32");
  EXPECT_EQ(
      Rendered("{{ 'big word' | title }}{{ 'bIG' | capitalize }}{{ 'aXbX' | replace('X', '--') }}"),
      "Big WordBiga--b--");
  EXPECT_EQ(
      Rendered(
          "{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}"),
      "02");
}

// The bytes are in the golden data; these are what it cannot say.
TEST(TemplateEngineTest, ToJsonNamesWrongArguments) {
  EXPECT_THAT(ErrorOf("{{ 1 | tojson(width=2) }}"), HasSubstr("unknown argument \"width\""));
  EXPECT_THAT(ErrorOf("{{ 1 | tojson(separators=',') }}"), HasSubstr("tojson: expected a list"));
  EXPECT_THAT(ErrorOf("{{ 1 | tojson(separators=[',']) }}"), HasSubstr("two separators"));
  EXPECT_EQ(Rendered("{{ [1, {}] | tojson(indent=none) }}"), "[1, {}]");
}

TEST(TemplateEngineTest, ExtraArgumentsAreVariables) {
  constexpr std::string_view kSource =
      "{% if enable_thinking is defined and not enable_thinking %}off{% else %}on{% endif %}"
      "{% for t in tools %}{{ t.name }}{% endfor %}";
  EXPECT_EQ(Rendered("{% if not enable_thinking is defined %}on{% endif %}"), "on");
  EXPECT_EQ(Rendered(kSource, {.extra_arguments_json =
                                   R"({"enable_thinking": false, "tools": [{"name": "f"}]})"}),
            "offf");
  EXPECT_THAT(ErrorOf("x", {.extra_arguments_json = "[1]"}), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf("x", {.extra_arguments_json = "{\"a\": "}), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf("x", {.extra_arguments_json = R"({"messages": []})"}),
              HasSubstr("\"messages\""));
  const std::string deep = "{\"a\": " + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_THAT(ErrorOf("x", {.extra_arguments_json = deep}), HasSubstr("nest deeper"));
}

TEST(TemplateEngineTest, TheTemplatesOwnMessageComesThrough) {
  const std::string message = ErrorOf("{{ raise_exception('roles must alternate') }}");
  EXPECT_THAT(message, HasSubstr("roles must alternate"));
  EXPECT_THAT(message, Not(HasSubstr("at row")));
}

TEST(TemplateEngineTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(ErrorOf("{{ 'a' | xmlattr }}"), HasSubstr("\"xmlattr\" is not supported"));
  EXPECT_THAT(ErrorOf("{{ strftime_now('%Y') }}"), HasSubstr("\"strftime_now\" is not supported"));
  EXPECT_THAT(ErrorOf("{{ 'a'.join([]) }}"), HasSubstr("join"));
  EXPECT_THAT(ErrorOf("{{ 3 is odd }}"), HasSubstr("odd"));
  EXPECT_THAT(ErrorOf("{% include 'x' %}"), HasSubstr("line 1"));
  EXPECT_THAT(ErrorOf("{% filter nosuch %}x{% endfilter %}"), HasSubstr("\"nosuch\""));
  // Only when it is reached.
  EXPECT_EQ(Rendered("{% if false %}{{ 'a' | xmlattr }}{% endif %}ok"), "ok");
  // A template that asks first takes the path that does not depend on the clock.
  EXPECT_EQ(
      Rendered("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}then{% endif %}"),
      "then");
}

TEST(TemplateEngineTest, BrokenTemplatesAreErrors) {
  for (const char* source :
       {"{% if x %}", "{% for x in %}{% endfor %}", "{{ ", "{{ a b }}", "{% endif %}", "{# no end",
        "{{ 'open }}", "{% set x %}", "{{ (1 }}", "{% macro %}{% endmacro %}", "{% frobnicate %}",
        "{% %}", "{{ }}", "{{ {1: }}", "{{ 1e999 }}"}) {
    EXPECT_EQ(ParseKnown(source).status().code(), absl::StatusCode::kInvalidArgument) << source;
  }
}

std::string Repeat(std::string_view unit, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

TEST(TemplateEngineTest, LongTemplatesAreRefused) {
  EXPECT_THAT(Message(ParseKnown(Repeat("x", 100'000)).status()), HasSubstr("expected at most"));
}

TEST(TemplateEngineTest, LongCommentsAreHarmless) {
  EXPECT_EQ(Rendered("a{# " + Repeat("comment ", 5000) + "#}b"), "ab");
  EXPECT_THAT(ErrorOf("{#\n\n#}\n{{ nosuch() }}"), HasSubstr("line 4"));
}

TEST(TemplateEngineTest, EndlessRecursionAndOutputAreErrors) {
  EXPECT_THAT(ErrorOf("{% macro a(x) %}{{ a(x) }}{% endmacro %}{{ a(1) }}"),
              HasSubstr("too deeply"));
  EXPECT_THAT(
      ErrorOf(
          "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
      HasSubstr("too deeply"));
  EXPECT_THAT(ErrorOf("{% for i in range(100000) %}" + Repeat("x", 200) + "{% endfor %}"),
              HasSubstr("renders to more than"));
  EXPECT_THAT(ErrorOf("{% for i in range(100001) %}{% endfor %}"), HasSubstr("range: more than"));
  EXPECT_THAT(ErrorOf("{{ range(0, 5, 0) }}"), HasSubstr("range: the step is 0"));
}

TEST(TemplateEngineTest, InvalidUtf8InAMessageIsNamed) {
  const std::vector<ChatMessage> messages = {{"user", "ok", ""}, {"user", "a\xFF", ""}};
  const auto text = ParseAndRender("x", messages);
  EXPECT_THAT(Message(text.status()),
              HasSubstr("messages[1].content is not valid UTF-8 at byte 1"));
}

TEST(TemplateEngineTest, RendersDoNotInfluenceEachOther) {
  const auto parsed = ParseKnown(
      "{% set seen = seen | default(0) %}{% macro m(x) %}<{{ x }}>{% endmacro %}"
      "{% set namespace.leak = 1 %}{{ seen }}{% for t in messages %}{{ m(t.content) }}{% endfor "
      "%}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<ChatMessage> messages = {{"user", std::to_string(t), ""}};
      for (int i = 0; i < 50; ++i) {
        const auto text = (*parsed)->Render(messages, {});
        ASSERT_TRUE(text.ok()) << text.status();
        ASSERT_EQ(*text, "0<" + std::to_string(t) + ">");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::router
