// Templates and arguments that mean harm: each ends in an answer or an error of its own request,
// within the limits, and the next chat is rendered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/caged/frame_io.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"
#include "router/templates/renderer_frames.h"
#include "router/text/unicode/utf8.h"
#include "tests/common/temp_folder.h"
#include "tests/router/templates/child_processes.h"
#include "tests/router/templates/test_templates.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::ProcFile;
using ::lockstep::testing::SourceOf;
using ::lockstep::testing::TestRenderers;

// Each line is a template. A line that begins with two spaces continues the line before. What a
// template can take are time, memory, the stack, files, other processes, the interpreter itself.
constexpr char kTemplates[] = R"(
{{ 'x' * 10 ** 9 }}
{{ 'x' * 10 ** 7 }}
{{ messages[0].content * 10 ** 9 }}
{{ [0] * 10 ** 9 }}
{{ (0,) * 10 ** 9 }}
{{ ['x' * 10 ** 6] * 10 ** 6 }}
{{ 'x'.center(10 ** 10) }}
{{ 'x'.ljust(10 ** 9) }}
{{ 'x'.rjust(2 ** 62) }}
{{ 'x'.zfill(10 ** 9) }}
{{ 'x\t'.expandtabs(10 ** 9) }}
{{ '%1000000000d' % 1 }}
{{ '%*d' % (1000000000, 1) }}
{{ '{:>1000000000}'.format(1) }}
{{ '{:1000000000d}'.format(1) }}
{{ '{:.1000000000f}'.format(1.0) }}
{{ '{0:{1}}'.format('x', 10 ** 9) }}
{{ 'x' | center(10 ** 9) }}
{{ 'a\nb' | indent(10 ** 9) }}
{{ 'aaa' | replace('a', 'b' * 10 ** 8) }}
{{ 'a' | replace('', 'b' * 10 ** 8) }}
{{ ('a' * 10 ** 6) | replace('', 'b' * 10 ** 4) }}
{{ ('ab' * 10 ** 6).split('b') | length }}
{{ ('a ' * 10 ** 6) | wordwrap(3) | length }}
{{ ('<' * 10 ** 6) | striptags | length }}
{{ ('http://' * 10 ** 5) | urlize | length }}
{{ ('a@' * 10 ** 5) | urlize | length }}
{{ ('a' * 10 ** 6) | title | length }}
{{ ('-a' * 10 ** 6) | title | length }}
{{ ('&' * 10 ** 7) | e | length }}
{{ range(10 ** 9) }}
{{ range(100000) | list | length }}
{{ range(100000) | map('string') | join | length }}
{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}
{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}
{% for a in range(99999) recursive %}{{ loop([1]) }}{% endfor %}
{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}
{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}
{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{% call f() %}x{% endcall %}{% endcall %}
{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}
{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}
{% set ns = namespace() %}{% set ns.a = {'k': ns} %}{{ ns.a | tojson }}
{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | pprint }}
{% set ns = namespace(a=[]) %}{% for i in range(90000) %}{% set ns.a = [ns.a] %}{% endfor %}
  {{ ns.a }}
{% set ns = namespace(a=[]) %}{% for i in range(90000) %}{% set ns.a = [ns.a] %}{% endfor %}
  {{ ns.a | tojson }}
{% set ns = namespace(a=[]) %}{% for i in range(90000) %}{% set ns.a = [ns.a] %}{% endfor %}
  {{ ns.a == ns.a }}
{% set ns = namespace(a=[]) %}{% for i in range(90000) %}{% set ns.a = [ns.a] %}{% endfor %}ok
{% set ns = namespace(a=()) %}{% for i in range(90000) %}{% set ns.a = (ns.a,) %}{% endfor %}
  {{ {ns.a: 1} }}
{% set ns = namespace(a='') %}{% for i in range(90000) %}
  {% set ns.a = ns.a ~ 'xxxxxxxxxxxxxxxx' %}{% endfor %}{{ ns.a | length }}
{% set ns = namespace(a=2) %}{% for i in range(60) %}{% set ns.a = ns.a * ns.a %}{% endfor %}
  {{ ns.a > 1 }}
{% set ns = namespace(a='ab') %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}
  {{ ns.a }}
{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}
  {{ ns.a }}
{{ 9 ** 9 ** 9 }}
{{ 9 ** (9 ** 9) }}
{{ (messages | length + 8) ** (9 ** 9) > 1 }}
{{ (9 ** (9 ** 6)) | string }}
{{ messages | length ** 10 ** 10 }}
{{ (10 ** 4000) ** 4000 }}
{{ 10 ** 5000 }}
{{ '9' * 5000 | int }}
{{ ('9' * 5000) | int }}
{{ ('9' * 10 ** 6) | float }}
{{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ (1e308 * 10) - (1e308 * 10) }}
{{ (1e308 * 10) | int }}
{{ (1e308 * 10) | tojson }}
{{ 2 ** (-10 ** 10) }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ -1 ** 0.5 }}
{{ (-1) ** 0.5 }}
{{ 'x'.__class__.__mro__[1].__subclasses__() }}
{{ ''.__class__ }}
{{ messages.__class__.__base__.__subclasses__() }}
{{ messages | attr('__class__') }}
{{ messages | map(attribute='__class__') | list }}
{{ messages | groupby('__class__') }}
{{ [''] | map('attr', '__class__') | first }}
{{ '{0.__class__}'.format('x') }}
{{ '{0.__class__.__mro__}'.format('x') }}
{{ '{a.__class__}'.format_map({'a': 1}) }}
{{ '{0[__class__]}'.format({}) }}
{{ ('{0.__class__}' | attr('format'))('x') }}
{{ ['{0.__class__}'.format] | first }}
{{ ['{0.__class__}'] | map('format', 1) | list }}
{{ self.__init__.__globals__ }}
{{ self._TemplateReference__context }}
{{ lipsum.__globals__ }}
{{ lipsum.__globals__['os'].system('true') }}
{{ lipsum.__builtins__ }}
{{ lipsum(n=10 ** 6) }}
{{ lipsum(n=1, min=10 ** 8, max=10 ** 8 + 1) }}
{{ cycler.__init__.__globals__.os }}
{{ joiner.__init__.__globals__ }}
{{ namespace.__init__.__globals__ }}
{{ dict.__init__ }} {{ dict.__class__ }}
{{ dict.fromkeys(range(100000)) | length }}
{{ raise_exception.__globals__ }}
{{ raise_exception.__code__ }}
{{ strftime_now.__globals__ }}
{{ strftime_now('%' * 10 ** 6) | length }}
{{ strftime_now('%c' * 10 ** 6) | length }}
{{ strftime_now('x' * 10 ** 8) | length }}
{{ strftime_now('%1000000000Y') | length }}
{{ strftime_now('\x00') }}
{{ strftime_now('\ud800') }}
{{ strftime_now(1) }}
{{ raise_exception('x' * 10 ** 7) }}
{{ raise_exception('\ud800') }}
{{ raise_exception('\x00\x1b[2J\n') }}
{{ raise_exception(messages) }}
{{ raise_exception(range(100000) | list) }}
{{ raise_exception(none) }}
{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}
{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}
{% macro m(a) %}{{ m._environment }}{% endmacro %}{{ m(1) }}
{% for x in [1] %}{{ loop._iterable }}{{ loop.__class__ }}{{ loop._recurse }}{% endfor %}
{{ (1).__class__.__bases__ }}
{{ messages.append(1) }}
{{ messages.extend([1]) }}
{{ messages.sort() }}
{{ messages.pop() }}
{{ messages[0].update(a=1) }}
{{ messages[0].pop('role') }}
{{ messages[0].setdefault('a', 1) }}
{{ messages[0].__setitem__('a', 1) }}
{% set messages[0]['a'] = 1 %}
{% do messages.append(1) %}
{% include '/etc/passwd' %}
{% include ['/etc/passwd', '/proc/self/environ'] ignore missing %}
{% import '/etc/passwd' as x %}
{% from 'os' import system %}
{% extends '/etc/passwd' %}
{{ 'x'.encode('idna') }}
{{ 'x'.encode('punycode') }}
{{ 'x'.encode('zlib') }}
{{ 'x'.encode('nosuch') }}
{{ ('x' * 10 ** 6).encode('unicode_escape') | length }}
{{ (5).to_bytes(10 ** 9, 'big') }}
{{ (5).from_bytes('x'.encode() * 10 ** 6, 'big') | string | length }}
{{ ('a' * 10 ** 6).translate({97: 'b' * 10 ** 4}) | length }}
{{ 'x'.maketrans }}
{{ ('a' * 5000) | pprint | length }}
{{ range(100000) | list | pprint | length }}
{{ messages | debug }}
{% debug %}
{% trans %}x{% endtrans %}
{{ gettext('x') }}
{{ range(100000) | batch(1) | list | length }}
{{ [1] | batch(10 ** 9, 'x') | list }}
{{ [1] | slice(10 ** 7) | list | length }}
{{ range(100000) | sort(reverse=true) | first }}
{{ range(100000) | unique | list | length }}
{{ range(100000) | groupby('x') }}
{{ range(100000) | sum }}
{{ [[1]] | sum(start=[]) }}
{{ (range(100000) | list | string) | wordcount }}
{{ messages | tojson(indent=10 ** 9) }}
{{ [1, 2] | tojson(indent='x' * 10 ** 8) }}
{{ {'a': 1, 2: 3} | tojson(sort_keys=true) }}
{{ range | tojson }}
{{ nope | tojson }}
{{ '\ud800' }}
{{ '\udfff' | tojson }}
{{ '\ud800' | tojson(ensure_ascii=true) }}
{{ '\ud800'.encode() }}
{{ '\U00110000' }}
{{ '\N{NOSUCH}' }}
{{ '\x00' }}
{{ 'x' | urlencode | attr('y') }}
{{ {'a': 'b'} | xmlattr | attr('__class__') }}
{{ {'a"onload=': 'b'} | xmlattr }}
{{ 5 | random }} {{ range(5) | random }}
{{ messages[10 ** 100] }}
{{ messages['x' * 10 ** 6] }}
{{ 'abc'[::0] }}
{{ 'abc'[10 ** 100:] }} {{ 'abc'[:: 10 ** 30] }}
{{ 'abc'['a'] }}
{% set a = b %}{% set b = a %}{{ a }}
{% set range = 5 %}{{ range(3) }}
{% set messages = range(100000) %}{{ messages | length }}
{% filter upper %}{% for i in range(100000) %}{{ i }}{% endfor %}{% endfilter %}
{% set x %}{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}{{ x | length }}
{% with %}{% with %}{% with %}{{ x }}{% endwith %}{% endwith %}{% endwith %}
{% autoescape true %}{{ '<' * 10 ** 7 }}{% endautoescape %}
{% block a %}{{ self.a() }}{% endblock %}
{% block a %}{{ super() }}{% endblock %}
{% break %}
{% generation %}{% generation %}x{% endgeneration %}{% endgeneration %}
{% for i in range(3) %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{{ caller() }} {{ loop.index }} {{ varargs }} {{ super }}
{{ tools[0] }} {{ documents.x.y }}
{{ context }} {{ environment }} {{ __builtins__ }} {{ __import__('os') }} {{ exec('1') }}
   {{ open('/etc/passwd') }}
)";

std::string Repeat(const std::string& unit, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

std::vector<std::string> Templates() {
  std::vector<std::string> templates;
  std::string line;
  for (const char c : std::string_view(kTemplates).substr(1)) {
    if (c == '\n') {
      if (line.starts_with("  ")) {
        templates.back() += line.substr(2);
      } else {
        templates.push_back(line);
      }
      line.clear();
    } else {
      line += c;
    }
  }
  // What only length makes dangerous.
  for (const size_t count : {100u, 1'000u, 20'000u}) {
    templates.push_back("{{ " + std::string(count, '(') + "1" + std::string(count, ')') + " }}");
    templates.push_back("{{ " + std::string(count, '[') + std::string(count, ']') + " }}");
    templates.push_back("{{ 1" + Repeat(" + 1", count) + " }}");
    templates.push_back("{{ " + Repeat("not ", count) + "1 }}");
    templates.push_back("{{ " + Repeat("-", count) + "1 }}");
    templates.push_back("{{ x" + Repeat(".y", count) + " }}");
    templates.push_back("{{ 'x'" + Repeat(" | upper", count) + " }}");
    templates.push_back(Repeat("{% if 1 %}", count) + "x" + Repeat("{% endif %}", count));
    templates.push_back(Repeat("{% for i in [1] %}", count) + "x" + Repeat("{% endfor %}", count));
    templates.push_back(Repeat("{{ 1 }}", count));
    templates.push_back(Repeat("{% set x = 1 %}", count) + "x");
    templates.push_back("{{ '" + Repeat("\\u00e9", count) + "' }}");
    templates.push_back("{# " + Repeat("{# ", count) + " #}");
    templates.push_back("{% if 1 %}" + Repeat("{% elif 1 %}", count) + "{% endif %}");
  }
  return templates;
}

class HostileTemplateTest : public ::testing::Test {
 protected:
  HostileTemplateTest()
      : program_(*OpenRendererProgram(TestRenderers().program, "/usr/bin/python3")) {
    limits_.time = absl::Milliseconds(kSanitized ? 1000 : 200);
    limits_.load_time = absl::Seconds(1);
  }

  // Loads and renders in a process that the template may end.
  absl::StatusOr<std::string> Render(const std::string& text, const std::string& arguments = "") {
    if (process_ == nullptr) {
      process_ = *RendererProcess::Start(program_, limits_, LoadFrame(SourceOf("x")));
      EXPECT_TRUE(process_->AwaitTemplate().result.ok());
    }
    absl::StatusOr<std::string> loaded = Exchange(LoadFrame(SourceOf(text)));
    if (!loaded.ok()) return loaded;
    const std::vector<ChatMessage> chat = {{.role = "user", .content = "Hi", .name = ""}};
    return Exchange(*RenderFrame(chat, {.add_generation_prompt = true,
                                        .extra_arguments_json = arguments,
                                        .marked_characters = {}}));
  }

  const PythonProgram program_;
  RendererLimits limits_;
  std::unique_ptr<RendererProcess> process_;
  std::vector<RendererEnd> ends_;

 private:
  absl::StatusOr<std::string> Exchange(const std::string& frame) {
    RendererProcess::Reply reply = process_->Render(frame);
    if (reply.end) {
      ends_.push_back(*reply.end);
      process_.reset();
    }
    return std::move(reply.result);
  }
};

TEST_F(HostileTemplateTest, EndsInAnAnswerOrInAnErrorOfItsOwn) {
  const std::vector<std::string> templates = Templates();
  EXPECT_GE(templates.size(), 200u);
  for (const std::string& text : templates) {
    SCOPED_TRACE(text.substr(0, 100));
    const Instant start = MonotonicNow();
    const auto rendered = Render(text);
    EXPECT_LT(MonotonicNow() - start, absl::Seconds(30));
    if (rendered.ok()) {
      EXPECT_LE(rendered->size(), kMaxRenderedBytes);
      EXPECT_FALSE(FindInvalidUtf8(*rendered).has_value());
      for (const char* const secret : {"<class", "<module", "<bound method", "root:", "/usr/lib"}) {
        EXPECT_EQ(rendered->find(secret), std::string::npos) << *rendered;
      }
    } else {
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument) << rendered.status();
      EXPECT_LE(Message(rendered.status()).size(), kMaxCagedErrorBytes);
      EXPECT_FALSE(FindInvalidUtf8(Message(rendered.status())).has_value());
    }
    EXPECT_EQ(Render("<{{ messages[0].content }}>").value_or("none"), "<Hi>");
  }
  // No template made the program itself fail, or call what the cage forbids.
  EXPECT_EQ(std::count(ends_.begin(), ends_.end(), RendererEnd::kCrash), 0);
  EXPECT_EQ(std::count(ends_.begin(), ends_.end(), RendererEnd::kGone), 0);
}

TEST_F(HostileTemplateTest, ArgumentsAreDataToo) {
  const std::string uses =
      "{{ a }}{{ a | tojson }}{{ a | string | length }}{% for x in a %}{{ x }}{% endfor %}";
  std::string many = "{";
  for (int i = 0; i < 9'000; ++i) many += "\"k" + std::to_string(i) + "\": 1, ";
  for (const std::string& arguments :
       {std::string(R"({"a": 1e308})"), std::string(R"({"a": -0})"),
        std::string(R"({"a": 123456789012345678901234567890})"),
        "{\"a\": 1" + std::string(900, '0') + "}", std::string(R"({"a": "\u0000\u001b"})"),
        std::string(R"({"a": {"__class__": 1, "items": 2, "": 3}})"),
        std::string(
            R"({"range": 1, "namespace": 2, "dict": 3, "raise_exception": 4, "loop": 5, "a": []})"),
        std::string(R"({"self": 1, "caller": 2, "tools": [{"self": 1}], "a": {}})"),
        "{\"a\": " + std::string(60, '[') + std::string(60, ']') + "}",
        "{\"a\": \"" + std::string(60'000, 'x') + "\"}", many + "\"a\": 1}"}) {
    SCOPED_TRACE(arguments.substr(0, 80));
    const auto rendered = Render(uses, arguments);
    EXPECT_TRUE(rendered.ok() || absl::IsInvalidArgument(rendered.status())) << rendered.status();
    EXPECT_EQ(Render("<{{ messages[0].content }}>", arguments).value_or("none"), "<Hi>");
  }
  EXPECT_THAT(ends_, ::testing::IsEmpty());
}

// One rendering leaves nothing for the next one to see.
TEST_F(HostileTemplateTest, RenderingsDoNotInfluenceEachOther) {
  ASSERT_TRUE(Render("x").ok());
  const std::string text =
      "{% set seen = seen | default(0) + 1 %}{% set range = 1 %}{% set messages = 2 %}"
      "{% macro namespace() %}{% endmacro %}{{ seen }}";
  EXPECT_EQ(Render(text).value_or("none"), "1");
  EXPECT_EQ(Render(text).value_or("none"), "1");
  EXPECT_EQ(Render("{{ seen }}{{ range(2) | list }}{{ namespace(a=1).a }}").value_or("none"),
            "[0, 1]1");
}

}  // namespace
}  // namespace lockstep::router
