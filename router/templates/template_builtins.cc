#include "router/templates/template_builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <minja/minja.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "router/templates/template_json.h"
#include "router/text/unicode/utf8.h"
#include "router/text/unicode/white_space.h"

namespace lockstep::router {
namespace {

using minja::ArgumentsValue;
using minja::Value;
using Arguments = std::vector<Value>;
using Function = Value (*)(const Arguments&);

constexpr int64_t kMaxRangeLength = 100'000;

[[noreturn]] void Fail(std::string message) { throw std::runtime_error(std::move(message)); }

void ExpectArray(const Value& value, const char* name) {
  if (!value.is_array()) Fail(fmt::format("{}: expected a list", name));
}

std::string ExpectString(const Value& value, const char* name) {
  if (!value.is_string()) Fail(fmt::format("{}: expected a string", name));
  return value.get<std::string>();
}

char ToUpper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
char ToLower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

Value First(const Arguments& args) {
  if (args[0].is_string()) {
    const std::string text = args[0].get<std::string>();
    return text.empty() ? Value() : Value(text.substr(0, NextUtf8Unit(text).length));
  }
  ExpectArray(args[0], "first");
  return args[0].empty() ? Value() : args[0].at(size_t{0});
}

Value Reverse(const Arguments& args) {
  ExpectArray(args[0], "reverse");
  Value reversed = Value::array();
  for (size_t i = args[0].size(); i > 0; --i) reversed.push_back(args[0].at(i - 1));
  return reversed;
}

Value Sort(const Arguments& args) {
  ExpectArray(args[0], "sort");
  std::vector<Value> items;
  for (size_t i = 0; i < args[0].size(); ++i) items.push_back(args[0].at(i));
  std::sort(items.begin(), items.end());
  return Value::array(items);
}

// ASCII letters only, as the library's own upper and lower.
Value Title(const Arguments& args) {
  std::string text = ExpectString(args[0], "title");
  bool inside_word = false;
  for (char& c : text) {
    c = inside_word ? ToLower(c) : ToUpper(c);
    inside_word = std::isspace(static_cast<unsigned char>(c)) == 0;
  }
  return Value(text);
}

Value Capitalize(const Arguments& args) {
  std::string text = ExpectString(args[0], "capitalize");
  std::transform(text.begin(), text.end(), text.begin(), ToLower);
  if (!text.empty()) text[0] = ToUpper(text[0]);
  return Value(text);
}

Value Replace(const Arguments& args) {
  const std::string text = ExpectString(args[0], "replace");
  const std::string before = ExpectString(args[1], "replace");
  const std::string after = ExpectString(args[2], "replace");
  if (before.empty()) Fail("replace: expected something to replace");
  std::string replaced;
  size_t begin = 0;
  for (size_t found; (found = text.find(before, begin)) != std::string::npos;) {
    replaced.append(text, begin, found - begin).append(after);
    begin = found + before.size();
  }
  return Value(replaced.append(text, begin));
}

// The library's own knows ASCII only.
Value Trim(const Arguments& args) {
  const std::string text = ExpectString(args[0], "trim");
  return Value(std::string(TrimStart(TrimEnd(text))));
}

Value Range(const Arguments& args) {
  const int64_t start = args.size() > 1 ? args[0].get<int64_t>() : 0;
  const int64_t stop = args[args.size() > 1 ? 1 : 0].get<int64_t>();
  const int64_t step = args.size() > 2 ? args[2].get<int64_t>() : 1;
  if (step == 0) Fail("range: the step is 0");
  constexpr int64_t kMaxBound = int64_t{1} << 53;
  for (const int64_t bound : {start, stop, step}) {
    if (bound > kMaxBound || bound < -kMaxBound) Fail("range: bound out of range");
  }
  Value items = Value::array();
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) == kMaxRangeLength) {
      Fail(fmt::format("range: more than {} items", kMaxRangeLength));
    }
    items.push_back(Value(i));
  }
  return items;
}

constexpr std::array<std::string_view, 4> kJsonArguments = {"ensure_ascii", "indent", "separators",
                                                            "sort_keys"};

// The library's own breaks the lines of empty containers, and prints some floats otherwise.
Value ToJson(const Arguments& args) {
  const auto argument = [&args](size_t i) { return i < args.size() ? args[i] : Value(); };
  if (args[0].is_callable()) Fail("tojson: expected a value, got a macro or function");
  JsonStyle style;
  style.ensure_ascii = argument(1).to_bool();
  style.sort_keys = argument(4).to_bool();
  if (const Value indent = argument(2); !indent.is_null()) {
    style.indent = indent.is_string()
                       ? indent.get<std::string>()
                       : std::string(std::max<int64_t>(indent.get<int64_t>(), 0), ' ');
    style.item_separator = ",";
  }
  if (const Value separators = argument(3); !separators.is_null()) {
    ExpectArray(separators, "tojson");
    if (separators.size() != 2) Fail("tojson: expected two separators");
    style.item_separator = ExpectString(separators.at(size_t{0}), "tojson");
    style.key_separator = ExpectString(separators.at(size_t{1}), "tojson");
  }
  return Value(DumpJson(args[0].get<nlohmann::ordered_json>(), style));
}

// The library's own prints six digits of a float.
Value String(const Arguments& args) {
  if (!args[0].is_number_float()) return Value(args[0].to_str());
  return Value(DumpJson(args[0].get<nlohmann::ordered_json>(), {}));
}

struct Builtin {
  const char* name;
  size_t min_args;
  size_t max_args;
  Function function;
  std::span<const std::string_view> names = {};  // of the last arguments, where they have any
};

// All arguments by position. A named argument takes the place of its name. Places that the call
// leaves out before it are null.
Arguments ByPosition(const Builtin& builtin, ArgumentsValue& args) {
  args.expectArgs(builtin.name, {builtin.min_args, builtin.max_args}, {0, builtin.names.size()});
  Arguments all = args.args;
  for (const auto& [name, value] : args.kwargs) {
    const auto found = std::find(builtin.names.begin(), builtin.names.end(), name);
    if (found == builtin.names.end()) {
      Fail(fmt::format("{}: unknown argument \"{}\"", builtin.name, name));
    }
    const auto place = static_cast<size_t>(builtin.max_args - (builtin.names.end() - found));
    all.resize(std::max(all.size(), place + 1));
    all[place] = value;
  }
  return all;
}

constexpr std::array<Builtin, 10> kBuiltins = {{
    {"first", 1, 1, First},
    {"reverse", 1, 1, Reverse},
    {"sort", 1, 1, Sort},
    {"title", 1, 1, Title},
    {"capitalize", 1, 1, Capitalize},
    {"replace", 3, 3, Replace},
    {"range", 1, 3, Range},
    {"trim", 1, 1, Trim},
    {"tojson", 1, 5, ToJson, kJsonArguments},
    {"string", 1, 1, String},
}};

}  // namespace

std::shared_ptr<minja::Context> MakeTemplateBuiltins() {
  const std::shared_ptr<minja::Context> context = minja::Context::builtins();
  for (const Builtin& builtin : kBuiltins) {
    const auto call = [builtin](const std::shared_ptr<minja::Context>&, ArgumentsValue& args) {
      return builtin.function(ByPosition(builtin, args));
    };
    context->set(Value(builtin.name), Value::callable(call));
  }
  return context;
}

}  // namespace lockstep::router
