#include "router/calls/grammar/argument_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/shown_text.h"
#include "common/status.h"
#include "router/calls/call_output.h"
#include "router/calls/grammar/argument_schema.h"
#include "router/calls/grammar/value_choices.h"
#include "router/calls/grammar/value_schema.h"
#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/marker_scanner.h"
#include "router/calls/scanners/schema_value.h"

namespace lockstep::router {
namespace {

const std::string kOptionalLine = std::string(kLineRule) + "?";

bool Names(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

absl::Status CheckGrammarSize(const LarkRules& rules) {
  if (rules.text().size() <= kMaxCallGrammarBytes) return absl::OkStatus();
  return InvalidArgument("expected a grammar of at most {} bytes", kMaxCallGrammarBytes);
}

absl::Status AboutProperty(const absl::Status& status, const std::string& name) {
  return absl::Status(status.code(), fmt::format("property {}: {}", Quote(name), Message(status)));
}

// The engine counts no further. No output is longer.
constexpr size_t kMaxCountedLength = 1'000'000;

constexpr std::string_view kJsonInteger = R"(/-?(0|[1-9][0-9]*)/)";
constexpr std::string_view kJsonNumber = R"(/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+\-]?[0-9]+)?/)";

// Alternatives of a terminal, with " | " between them.
class Alternatives {
 public:
  void Add(std::string_view expression) {
    if (!text_.empty()) text_ += " | ";
    text_ += expression;
  }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// How a value that is no string begins, if it is written as a rule for JSON.
struct JsonBegins {
  bool number = false;
  bool structured = false;
};

// Texts that ValueToJson reads as a value of these types that is no string. A terminal goes on
// while any text fits it, so texts that begin like the rule for JSON are left out as a whole.
std::string OtherValuesOf(const std::vector<std::string>& types, const JsonBegins& begins) {
  Alternatives others;
  if (Names(types, "null")) others.Add(R"(/[ \t\r\n]*(null|None)[ \t\r\n]*/)");
  if (Names(types, "boolean")) others.Add(R"(/[ \t\r\n]*(true|false|True|False)[ \t\r\n]*/)");
  if (Names(types, "number") || Names(types, "integer")) {
    others.Add(begins.number ? R"(/[ \t\r\n]*[0-9\-](?s:.*)/)"
                             : R"(/[ \t\r\n]*-?[0-9][0-9.eE+\-]*[ \t\r\n]*/)");
  }
  if (Names(types, "object") || begins.structured) others.Add(R"(/[ \t\r\n]*\{(?s:.*)/)");
  if (Names(types, "array") || begins.structured) others.Add(R"(/[ \t\r\n]*\[(?s:.*)/)");
  return others.text();
}

// Writes the values of one tool's parameters.
class ValueWriter {
 public:
  ValueWriter(const ArgumentContext& context, const OrderedJson& root)
      : context_(context), tags_(context.format.tags), root_(root) {}

  // The rest behind the key: the tags around the value, and the value.
  absl::StatusOr<std::string> Write(const ToolProperty& property, size_t number) {
    name_ = fmt::format("{}_{}", context_.number, number);
    types_ = context_.known.TypesOf(context_.tool.name, property.name);
    ValueChoices choices;
    std::vector<OrderedJson> others;
    if (Names(types_, "string")) {
      LOCKSTEP_ASSIGN_OR_RETURN(choices, ChoicesOf(property.schema, root_));
    } else if (types_.empty() && IsFree(property.schema)) {
      choices.anything = true;
    } else {
      // A text in quotes is a string, if the schema does not say so itself.
      others.push_back(property.schema);
    }
    return is_marked() ? WriteMarked(choices, others) : WritePlain(choices, others);
  }

 private:
  // The format says which values are strings.
  bool is_marked() const { return !tags_.string_open.empty(); }
  std::string_view frame() const { return tags_.trims_values ? "\n" : ""; }

  absl::StatusOr<std::string> WriteMarked(ValueChoices& choices, std::vector<OrderedJson>& others) {
    if (choices.anything) {
      choices.strings = {StringChoice()};
      others = {OrderedJson(true)};
    } else {
      AddWordsAndNumbers(choices, others);
      AddStructures(choices, others);
    }
    const std::string strings = StringBodies(choices, {});
    std::vector<std::string> both;
    if (!strings.empty())
      both.push_back(Sequence().Marker(tags_.string_open).Rule(Until(strings)).Take());
    if (!others.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string json, Json(others));
      both.push_back(Sequence().Marker(tags_.value_open).Rule(json).Take());
    }
    if (both.empty()) return NothingToWrite();
    return fmt::format("({})", fmt::join(both, " | "));
  }

  // The parser decides what a text is.
  absl::StatusOr<std::string> WritePlain(const ValueChoices& choices,
                                         std::vector<OrderedJson>& others) {
    Alternatives texts;
    if (choices.anything) {
      texts.Add(LarkTextWithout({tags_.value_end}));
    } else if (choices.strings.empty()) {
      AddWordsAndNumbers(choices, others);
      AddStructures(choices, others);
    } else {
      // Words and plain numbers are texts too, and the rest is a rule.
      JsonBegins begins;
      begins.number = std::ranges::any_of(choices.schemas, [](const TypedSchema& typed) {
        return IsNumeric(typed) && !IsFree(typed);
      });
      begins.structured = AddStructures(choices, others);
      if (begins.number) {
        AddWordsAndNumbers({.numbers = choices.numbers, .schemas = choices.schemas}, others);
        AddWordsAndNumbers({.words = choices.words}, texts);
      } else {
        AddWordsAndNumbers(choices, texts);
      }
      if (const std::string strings = StringBodies(choices, begins); !strings.empty()) {
        texts.Add(strings);
      }
    }
    LarkSequence value = Sequence();
    value.Marker(tags_.value_open).Text(frame());
    std::vector<std::string> both;
    if (!texts.empty()) both.push_back(Until(texts.text()));
    if (!others.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string json, Json(others));
      both.push_back(json);
    }
    if (both.empty()) return NothingToWrite();
    return value.Rule(fmt::format("({})", fmt::join(both, " | "))).Take();
  }

  static OrderedJson SchemaOfValues(const std::vector<const OrderedJson*>& values) {
    OrderedJson schema = OrderedJson::object();
    schema["enum"] = OrderedJson::array();
    for (const OrderedJson* const value : values) schema["enum"].push_back(*value);
    return schema;
  }

  // As schemas.
  static void AddWordsAndNumbers(const ValueChoices& choices, std::vector<OrderedJson>& schemas) {
    OrderedJson single = SchemaOfValues(choices.numbers);
    for (const std::string_view word : choices.words) {
      single["enum"].push_back(OrderedJson::parse(word));
    }
    if (!single["enum"].empty()) schemas.push_back(std::move(single));
    for (const TypedSchema& typed : choices.schemas) {
      if (IsNumeric(typed)) schemas.push_back(CopyOf(typed));
    }
  }

  // As texts. The schemas of numbers are free.
  static void AddWordsAndNumbers(const ValueChoices& choices, Alternatives& texts) {
    for (const std::string_view word : choices.words) texts.Add(LarkString(word));
    for (const TypedSchema& typed : choices.schemas) {
      if (IsNumeric(typed)) texts.Add(typed.type == "integer" ? kJsonInteger : kJsonNumber);
    }
    for (const OrderedJson* const number : choices.numbers) texts.Add(LarkString(number->dump()));
  }

  // Whether there are any.
  static bool AddStructures(const ValueChoices& choices, std::vector<OrderedJson>& schemas) {
    const size_t before = schemas.size();
    if (!choices.structures.empty()) schemas.push_back(SchemaOfValues(choices.structures));
    for (const TypedSchema& typed : choices.schemas) {
      if (!IsNumeric(typed)) schemas.push_back(CopyOf(typed));
    }
    return schemas.size() > before;
  }

  static absl::Status NothingToWrite() {
    return Unimplemented("no value can be written between the tags of the format");
  }

  // Whether the parser reads a text as the string that it is.
  bool MayWrite(std::string_view literal) const {
    if (literal.find(tags_.value_end) != std::string_view::npos) return false;
    if (is_marked()) return true;
    std::string quoted = "\"";
    AppendJsonEscaped(literal, quoted);
    return ValueToJson(literal, types_) == quoted + '"';
  }

  // The alternatives for strings; empty: none can be written.
  std::string StringBodies(const ValueChoices& choices, const JsonBegins& begins) const {
    Alternatives bodies;
    for (const StringChoice& choice : choices.strings) {
      if (!choice.literal) {
        bodies.Add(BodyOf(choice, begins));
      } else if (MayWrite(*choice.literal)) {
        bodies.Add(LarkString(*choice.literal));
      }
    }
    return bodies.text();
  }

  std::string BodyOf(const StringChoice& choice, const JsonBegins& begins) const {
    std::string body = LarkTextWithout({tags_.value_end});
    if (choice.min_length > 0 || choice.max_length) {
      const std::string most =
          choice.max_length ? std::to_string(std::min(*choice.max_length, kMaxCountedLength)) : "";
      body += fmt::format(" & /(?s:.{{{},{}}})/", choice.min_length, most);
    }
    const bool decides_type = !is_marked() && !IsOnlyString(types_);
    const std::string others = decides_type ? OtherValuesOf(types_, begins) : "";
    if (!others.empty()) body += fmt::format(" & ~({})", others);
    return fmt::format("({})", body);
  }

  // The terminal of all texts, with the tag behind it. The new line before the tag may be missing
  // where the text itself ends with none. Without that, a model that writes the tag at once could
  // not end the value any more.
  std::string Until(const std::string& texts) {
    std::string body = fmt::format("({})", texts);
    if (!frame().empty()) {
      const std::string own = "BODY_" + name_;
      context_.rules.Add(own, body);
      body = fmt::format(R"(({0} {1} | ({0} & ~/(?s:.*)\n/)))", own, LarkString(frame()));
    }
    return context_.rules.AddTextUntil("TEXT_" + name_, body, tags_.value_end, context_.tokenizer);
  }

  absl::StatusOr<std::string> Json(const std::vector<OrderedJson>& schemas) {
    OrderedJson schema = schemas[0];
    if (schemas.size() > 1) {
      schema = OrderedJson::object();
      schema["anyOf"] = schemas;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ValueSchema(schema, root_, tags_.value_end));
    const std::string rule = "value_" + name_;
    context_.rules.Add(rule, "%json " + text);
    return Sequence().Rule(rule).Text(frame()).Marker(tags_.value_end).Take();
  }

  LarkSequence Sequence() const { return LarkSequence(context_.tokenizer); }

  const ArgumentContext& context_;
  const CallTags& tags_;
  const OrderedJson& root_;
  // The current property.
  std::string name_;
  std::vector<std::string> types_;
};

bool IsIdentifier(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

// The value of a keyword argument.
absl::StatusOr<std::string> PythonValue(const ToolProperty& property, const OrderedJson& root) {
  OrderedJson rest = property.schema;
  const auto type = rest.find("type");
  if (type != rest.end() && *type == "boolean") {
    rest.erase("type");
    if (IsFree(rest)) return R"("True" | "False")";
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ValueSchema(property.schema, root, ""));
  return "%json " + text;
}

}  // namespace

absl::StatusOr<std::string> AddJsonArguments(const ArgumentContext& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(OrderedJson root, ParseArgumentSchema(context.tool.parameters));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string schema, ObjectSchema(std::move(root)));
  std::string rule = fmt::format("arguments_{}", context.number);
  context.rules.Add(rule, "%json " + schema);
  LOCKSTEP_RETURN_IF_ERROR(CheckGrammarSize(context.rules));
  return rule;
}

absl::StatusOr<std::string> AddTaggedArguments(const ArgumentContext& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(const OrderedJson root, ParseArgumentSchema(context.tool.parameters));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ToolProperty> properties, PropertiesOf(root));
  const CallTags& tags = context.format.tags;
  ValueWriter values(context, root);
  LarkSequence all(context.tokenizer);
  for (size_t i = 0; i < properties.size(); ++i) {
    const ToolProperty& property = properties[i];
    if (property.name.empty() || property.name.size() > kMaxNameBytes ||
        property.name.find_first_of("<>\n") != std::string::npos ||
        (property.name + std::string(tags.key_end)).find(tags.key_end) != property.name.size()) {
      return Unimplemented("property {}: the name cannot be written between the format's tags",
                           Quote(property.name));
    }
    const absl::StatusOr<std::string> value = values.Write(property, i);
    if (!value.ok()) return AboutProperty(value.status(), property.name);
    LarkSequence rule(context.tokenizer);
    rule.Rule(kOptionalLine).Marker(tags.key_open).Text(property.name).Marker(tags.key_end);
    if (!tags.value_open.empty() && tags.string_open.empty()) rule.Rule(kOptionalLine);
    const std::string name = fmt::format("parameter_{}_{}", context.number, i);
    context.rules.Add(name, rule.Rule(*value).Take());
    LOCKSTEP_RETURN_IF_ERROR(CheckGrammarSize(context.rules));
    all.Rule(property.required ? name : name + "?");
  }
  return all.Take();
}

absl::StatusOr<std::string> AddPythonArguments(const ArgumentContext& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(const OrderedJson root, ParseArgumentSchema(context.tool.parameters));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ToolProperty> properties, PropertiesOf(root));
  const auto rest = [&](size_t from, bool behind_another) {
    return fmt::format("{}_{}_{}", behind_another ? "more" : "keywords", context.number, from);
  };
  for (size_t i = 0; i < properties.size(); ++i) {
    const ToolProperty& property = properties[i];
    if (!IsIdentifier(property.name) || property.name.size() > kMaxNameBytes) {
      return Unimplemented("property {}: the name is no keyword of Python, or longer than {} bytes",
                           Quote(property.name), kMaxNameBytes);
    }
    const absl::StatusOr<std::string> value = PythonValue(property, root);
    if (!value.ok()) return AboutProperty(value.status(), property.name);
    const std::string value_rule = fmt::format("value_{}_{}", context.number, i);
    context.rules.Add(value_rule, *value);
    LOCKSTEP_RETURN_IF_ERROR(CheckGrammarSize(context.rules));
    const bool is_last = i + 1 == properties.size();
    for (const bool behind_another : {false, true}) {
      LarkSequence with(context.tokenizer);
      with.Text(behind_another ? ", " : "").Text(property.name).Text("=").Rule(value_rule);
      if (!is_last) with.Rule(rest(i + 1, true));
      std::string expression = with.Take();
      if (!property.required)
        expression += " | " + (is_last ? "\"\"" : rest(i + 1, behind_another));
      context.rules.Add(rest(i, behind_another), expression);
    }
  }
  return properties.empty() ? "" : rest(0, false);
}

}  // namespace lockstep::router
