#include "router/calls/grammar/value_choices.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxSteps = 1000;             // of one value: schemas may refer to each other
constexpr size_t kMaxChoicesOfValue = 10'000;  // of an enum, and twice as many of one value

// The operand of minLength or maxLength. nullopt: it is no count.
std::optional<size_t> CountOf(const OrderedJson& value) {
  constexpr double kMost = 1e15;  // a double holds such counts exactly
  if (value.is_number_unsigned()) return value.get<size_t>();
  if (!value.is_number_float() || !IsWhole(value)) return std::nullopt;
  const double number = value.get<double>();
  if (number < 0) return std::nullopt;
  return static_cast<size_t>(std::min(number, kMost));
}

// What a "$ref" of definitions means. Null: there is no such thing.
const OrderedJson* Resolve(const std::string& reference, const OrderedJson& root) {
  if (!RefersToDefinitions(reference)) return nullptr;
  const size_t slash = reference.find('/', 2);
  const OrderedJson* const definitions = Member(root, reference.substr(2, slash - 2));
  if (definitions == nullptr || !definitions->is_object()) return nullptr;
  // Names with escapes, and places inside of a definition, are left to the engine.
  return Member(*definitions, reference.substr(slash + 1));
}

template <typename T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// The values of one kind that one member of a oneOf allows.
struct MemberValues {
  std::vector<const OrderedJson*> single = {};
  std::vector<TypedSchema> schemas = {};
  bool empty() const { return single.empty() && schemas.empty(); }
};

MemberValues NumbersOf(const ValueChoices& choices) {
  MemberValues values{.single = choices.numbers};
  std::ranges::copy_if(choices.schemas, std::back_inserter(values.schemas), IsNumeric);
  return values;
}

MemberValues StructuresOf(const ValueChoices& choices, std::string_view type) {
  MemberValues values;
  std::ranges::copy_if(choices.structures, std::back_inserter(values.single),
                       [&](const OrderedJson* value) { return value->type_name() == type; });
  std::ranges::copy_if(choices.schemas, std::back_inserter(values.schemas),
                       [&](const TypedSchema& typed) { return typed.type == type; });
  return values;
}

// What schemas allow together, if exactly one of them must fit.
class ExactlyOne {
 public:
  explicit ExactlyOne(std::vector<ValueChoices> members) : members_(std::move(members)) {}

  absl::Status AddTo(ValueChoices& choices) const {
    if (!HasDifferentStrings()) return MayBeTheSame("string");
    for (const ValueChoices& member : members_) Append(member.strings, choices.strings);
    AddWords(choices);
    LOCKSTEP_RETURN_IF_ERROR(Add("number", choices.numbers, choices));
    LOCKSTEP_RETURN_IF_ERROR(Add("object", choices.structures, choices));
    return Add("array", choices.structures, choices);
  }

 private:
  static absl::Status MayBeTheSame(std::string_view what) {
    return Unimplemented("oneOf with schemas that may allow the same {} is not implemented", what);
  }

  bool HasDifferentStrings() const {
    if (members_.size() < 2) return true;
    std::set<std::string_view> literals;
    size_t num_free = 0;     // members with strings that are no literals
    size_t num_strings = 0;  // members with strings
    for (const ValueChoices& member : members_) {
      if (member.anything) return false;
      std::set<std::string_view> own;
      bool is_free = false;
      for (const StringChoice& choice : member.strings) {
        if (choice.literal) own.insert(*choice.literal);
        if (!choice.literal) is_free = true;
      }
      for (const std::string_view literal : own) {
        if (!literals.insert(literal).second) return false;
      }
      num_free += is_free ? 1 : 0;
      num_strings += member.strings.empty() ? 0 : 1;
    }
    return num_free == 0 || num_strings == 1;
  }

  void AddWords(ValueChoices& choices) const {
    std::map<std::string_view, size_t> counts;
    for (const ValueChoices& member : members_) {
      for (const std::string_view word : member.words) ++counts[word];
    }
    for (const auto& [word, count] : counts) {
      if (count == 1) choices.words.insert(word);
    }
  }

  // Values of one kind. `single`: where single ones belong in `choices`.
  absl::Status Add(std::string_view kind, std::vector<const OrderedJson*>& single,
                   ValueChoices& choices) const {
    std::vector<MemberValues> with;
    for (const ValueChoices& member : members_) {
      MemberValues values = kind == "number" ? NumbersOf(member) : StructuresOf(member, kind);
      if (!values.empty()) with.push_back(std::move(values));
    }
    if (with.size() == 1) {
      Append(with[0].single, single);
      Append(with[0].schemas, choices.schemas);
    } else if (std::ranges::all_of(with, [](const auto& own) { return own.schemas.empty(); })) {
      AddSingle(with, single);
    } else {
      // The engine decides whether they differ.
      TypedSchema together{.schema = nullptr, .type = kind, .one_of = {}};
      for (const MemberValues& own : with) {
        if (own.schemas.size() != 1 || !own.single.empty()) return MayBeTheSame(kind);
        together.one_of.push_back(own.schemas[0]);
      }
      choices.schemas.push_back(std::move(together));
    }
    return absl::OkStatus();
  }

  static void AddSingle(const std::vector<MemberValues>& members,
                        std::vector<const OrderedJson*>& single) {
    std::map<OrderedJson, std::vector<const OrderedJson*>> places;
    for (const MemberValues& member : members) {
      std::set<OrderedJson> own;
      for (const OrderedJson* const value : member.single) {
        if (own.insert(*value).second) places[*value].push_back(value);
      }
    }
    for (const auto& [value, found] : places) {
      if (found.size() == 1) single.push_back(found[0]);
    }
  }

  const std::vector<ValueChoices> members_;
};

// Sorts what a schema allows into strings and other values.
class ChoiceCollector {
 public:
  explicit ChoiceCollector(const OrderedJson& root) : root_(root) {}

  absl::StatusOr<ValueChoices> Collect(const OrderedJson& schema) {
    Union all;
    LOCKSTEP_RETURN_IF_ERROR(Add(schema, all));
    return std::move(all.choices);
  }

 private:
  // What several schemas allow, if any of them may fit.
  struct Union {
    ValueChoices choices;
    std::set<const OrderedJson*> schemas;  // that are in it
  };

  absl::Status Add(const OrderedJson& schema, Union& all) {
    if (++num_steps_ > kMaxSteps) return TooMany();
    if (!open_.insert(&schema).second) {
      return Unimplemented("a schema of strings that refers to itself is not implemented");
    }
    absl::Status status;
    if (all.schemas.insert(&schema).second) status = AddNew(schema, all);
    open_.erase(&schema);
    return status;
  }

  absl::Status AddNew(const OrderedJson& schema, Union& all) {
    if (IsFree(schema)) {
      all.choices.anything = true;
      return absl::OkStatus();
    }
    if (!schema.is_object()) return absl::OkStatus();  // false: nothing
    const std::set<std::string> keywords = KeywordsOf(schema);
    if (keywords.contains("enum") || keywords.contains("const")) {
      return AddValues(schema, keywords, all.choices);
    }
    if (keywords.contains("type")) return AddTypes(schema, keywords, all.choices);
    if (keywords.size() == 1) {
      const std::string& keyword = *keywords.begin();
      const OrderedJson& operand = schema[keyword];
      if (keyword == "$ref" && operand.is_string()) {
        const OrderedJson* const target = Resolve(operand.get<std::string>(), root_);
        if (target != nullptr) return Add(*target, all);
      }
      if (keyword == "allOf" && operand.is_array() && operand.size() == 1) {
        return Add(operand[0], all);
      }
      if (keyword == "anyOf" && operand.is_array()) {
        for (const OrderedJson& member : operand) LOCKSTEP_RETURN_IF_ERROR(Add(member, all));
        return absl::OkStatus();
      }
      if (keyword == "oneOf" && operand.is_array()) return AddOneOf(operand, all.choices);
    }
    return Unimplemented("strings of a schema with {} and no type are not implemented",
                         *keywords.begin());
  }

  absl::Status AddOneOf(const OrderedJson& operand, ValueChoices& choices) {
    std::vector<ValueChoices> members;
    for (const OrderedJson& member : operand) {
      Union own;
      LOCKSTEP_RETURN_IF_ERROR(Add(member, own));
      members.push_back(std::move(own.choices));
    }
    if (members.size() == 1) choices.anything = choices.anything || members[0].anything;
    return ExactlyOne(std::move(members)).AddTo(choices);
  }

  absl::Status AddValues(const OrderedJson& schema, const std::set<std::string>& keywords,
                         ValueChoices& choices) {
    const bool is_enum = keywords.contains("enum");
    for (const std::string& keyword : keywords) {
      if (keyword == "type" || keyword == (is_enum ? "enum" : "const")) continue;
      return Unimplemented("{} beside enum or const is not implemented", keyword);
    }
    const OrderedJson* const type = Member(schema, "type");
    if (!is_enum) return AddValue(schema["const"], type, choices);
    const OrderedJson& values = schema["enum"];
    if (!values.is_array() || values.size() > kMaxChoicesOfValue) {
      return InvalidArgument("enum: expected an array of at most {} values", kMaxChoicesOfValue);
    }
    for (const OrderedJson& value : values) {
      LOCKSTEP_RETURN_IF_ERROR(AddValue(value, type, choices));
    }
    return absl::OkStatus();
  }

  absl::Status AddValue(const OrderedJson& value, const OrderedJson* type, ValueChoices& choices) {
    if (++num_values_ > 2 * kMaxChoicesOfValue) return TooMany();
    if (!FitsType(value, type)) return absl::OkStatus();
    if (value.is_string()) {
      choices.strings.push_back({.literal = value.get_ref<const std::string&>()});
    } else if (value.is_number()) {
      choices.numbers.push_back(&value);
    } else if (value.is_structured()) {
      choices.structures.push_back(&value);
    } else {
      choices.words.insert(value.is_null() ? "null" : value == true ? "true" : "false");
    }
    return absl::OkStatus();
  }

  static absl::Status AddTypes(const OrderedJson& schema, const std::set<std::string>& keywords,
                               ValueChoices& choices) {
    const OrderedJson& type = schema["type"];
    std::set<std::string_view> names;
    for (size_t i = 0; i < (type.is_array() ? type.size() : 1); ++i) {
      const OrderedJson& name = type.is_array() ? type[i] : type;
      if (!name.is_string()) return InvalidArgument("type: expected the name of a type");
      names.insert(name.get_ref<const std::string&>());
    }
    for (const std::string_view name : names) {
      if (name == "string") {
        LOCKSTEP_RETURN_IF_ERROR(AddString(schema, keywords, choices));
      } else if (name == "null" || name == "boolean") {
        LOCKSTEP_RETURN_IF_ERROR(CheckOfAllTypes(keywords, name));
        if (name == "null") choices.words.insert("null");
        if (name == "boolean") choices.words.insert({"true", "false"});
      } else if (name == "integer" || name == "number" || name == "object" || name == "array") {
        choices.schemas.push_back({.schema = &schema, .type = name});
      } else {
        return InvalidArgument("type: expected the name of a type, got {}", Quote(name));
      }
    }
    return absl::OkStatus();
  }

  // Keywords that say something about values of every type.
  static absl::Status CheckOfAllTypes(const std::set<std::string>& keywords,
                                      std::string_view type) {
    for (const char* const keyword :
         {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}) {
      if (!keywords.contains(keyword)) continue;
      return Unimplemented("{} of a {} beside strings is not implemented", keyword, type);
    }
    return absl::OkStatus();
  }

  static absl::Status AddString(const OrderedJson& schema, const std::set<std::string>& keywords,
                                ValueChoices& choices) {
    constexpr auto kNotServed = std::to_array<std::string_view>(
        {"pattern", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"});
    for (const std::string_view keyword : kNotServed) {
      if (keywords.contains(std::string(keyword))) {
        return Unimplemented("{} of a string is not implemented", keyword);
      }
    }
    StringChoice choice;
    for (const char* const keyword : {"minLength", "maxLength"}) {
      const OrderedJson* const length = Member(schema, keyword);
      if (length == nullptr) continue;
      const std::optional<size_t> count = CountOf(*length);
      if (!count) return InvalidArgument("{}: expected a count", keyword);
      if (std::string_view(keyword) == "minLength") {
        choice.min_length = *count;
      } else {
        choice.max_length = count;
      }
    }
    choices.strings.push_back(choice);
    return absl::OkStatus();
  }

  static absl::Status TooMany() { return Unimplemented("its alternatives are too many"); }

  const OrderedJson& root_;
  std::set<const OrderedJson*> open_;  // schemas that are being added
  size_t num_steps_ = 0;
  size_t num_values_ = 0;
};

}  // namespace

absl::StatusOr<ValueChoices> ChoicesOf(const OrderedJson& value, const OrderedJson& root) {
  return ChoiceCollector(root).Collect(value);
}

OrderedJson CopyOf(const TypedSchema& typed) {
  OrderedJson copy = OrderedJson::object();
  if (!typed.one_of.empty()) {
    for (const TypedSchema& member : typed.one_of) copy["oneOf"].push_back(CopyOf(member));
    return copy;
  }
  const std::set<std::string> keywords = KeywordsOf(*typed.schema);
  for (const auto& [key, value] : typed.schema->items()) {
    if (key != "type" && keywords.contains(key)) copy[key] = value;
  }
  copy["type"] = typed.type;
  return copy;
}

bool IsNumeric(const TypedSchema& typed) {
  return typed.type == "integer" || typed.type == "number";
}

bool IsFree(const TypedSchema& typed) {
  if (!typed.one_of.empty()) return false;
  const std::set<std::string> keywords = KeywordsOf(*typed.schema);
  return keywords.size() == 1 && keywords.contains("type");
}

}  // namespace lockstep::router
