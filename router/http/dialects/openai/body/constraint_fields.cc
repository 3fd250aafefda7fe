#include "router/http/dialects/openai/body/constraint_fields.h"

#include <array>
#include <string>
#include <utility>

#include "common/json/json_text.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

// Names of fields that are read must live as long as the fields.
constexpr std::string_view kResponseFormat = "response_format";
constexpr std::string_view kStructuredOutputs = "structured_outputs";

constexpr auto kUnservedOfFormats = std::to_array<UnservedField>({
    {"structures"},
    {"triggers"},
});
// The rest of vLLM's options changes which texts fit.
constexpr auto kUnservedOfStructures = std::to_array<UnservedField>({
    {"structural_tag"},
    {"whitespace_pattern"},
    {"disable_any_whitespace", "[false]"},
    {"disable_additional_properties", "[false]"},
});
constexpr std::array<std::string_view, 2> kIgnoredOfStructures = {"disable_fallback", "_backend"};

// Collects the constraint of a body. `name` is the field that gave it.
class ConstraintReader {
 public:
  ConstraintReader(JsonFields& fields, v1::SamplingParams& sampling)
      : fields_(fields), sampling_(sampling) {}

  // `text` is the schema's part of the body. A string holds the schema's text.
  void Schema(const std::string& name, const json& schema, std::string_view text) {
    if (!Claim(name)) return;
    if (schema.is_string()) return sampling_.set_json_schema(schema.get<std::string>());
    if (!schema.is_object() && !schema.is_boolean()) {
      return fields_.FailKind(name, "a JSON schema", schema);
    }
    sampling_.set_json_schema(std::string(text));
  }
  void AnyObject(const std::string& name) {
    if (Claim(name)) sampling_.set_json_object(true);
  }
  void Regex(const std::string& name, std::string text) {
    if (Claim(name)) sampling_.set_regex(std::move(text));
  }
  void Grammar(const std::string& name, std::string text) {
    if (Claim(name)) sampling_.set_grammar(std::move(text));
  }
  void Choice(const std::string& name, const json& choices) {
    if (!Claim(name)) return;
    v1::ConstraintChoices& out = *sampling_.mutable_choice();
    if (!choices.is_array()) return fields_.FailKind(name, "an array of strings", choices);
    for (const json& choice : choices) {
      if (!choice.is_string()) return fields_.FailKind(name, "an array of strings", choices);
      out.add_texts(choice.get<std::string>());
    }
  }

 private:
  // False if another field came first.
  bool Claim(const std::string& name) {
    if (name_.empty()) {
      name_ = name;
      return true;
    }
    fields_.Fail(
        InvalidArgument("{}: expected without {}, which constrains the output too", name, name_));
    return false;
  }

  JsonFields& fields_;
  v1::SamplingParams& sampling_;
  std::string name_;
};

void ReadResponseFormat(JsonFields& fields, ConstraintReader& reader) {
  const json* const value = fields.Find(kResponseFormat);
  if (value == nullptr) return;
  if (!value->is_object())
    return fields.FailKind(std::string(kResponseFormat), "an object", *value);
  JsonFields format = fields.Inner(*value, std::string(kResponseFormat));
  const std::string type = format.String("type").value_or("");
  format.Refuse(kUnservedOfFormats);
  if (type == "json_object") {
    reader.AnyObject(std::string(kResponseFormat));
  } else if (type == "json_schema") {
    const json* const outer = format.Find("json_schema");
    if (outer == nullptr || !outer->is_object()) {
      return fields.Fail(InvalidArgument("{}: expected an object", format.PathOf("json_schema")));
    }
    JsonFields named = format.Inner(*outer, format.PathOf("json_schema"));
    // It is enforced with "strict": false as well.
    constexpr std::array<std::string_view, 3> kIgnoredOfSchema = {"name", "description", "strict"};
    named.Ignore(kIgnoredOfSchema);
    const json* const schema = named.Find("schema");
    if (schema == nullptr) {
      return fields.Fail(
          InvalidArgument("{}: expected a JSON schema, got none", named.PathOf("schema")));
    }
    const std::string_view outer_text =
        JsonTextOfMember(fields.BodyText(kResponseFormat), "json_schema");
    reader.Schema(named.PathOf("schema"), *schema, JsonTextOfMember(outer_text, "schema"));
    fields.Fail(named.Finish());
  } else if (type == "structural_tag") {
    fields.Fail(Unimplemented("{}: structural tags are not implemented", format.PathOf("type")));
  } else if (type != "text" && format.ok()) {
    fields.Fail(InvalidArgument("{}: expected text, json_object or json_schema, got {}",
                                format.PathOf("type"), Quote(type)));
  }
  fields.Fail(format.Finish());
}

void ReadStructuredOutputs(JsonFields& fields, ConstraintReader& reader) {
  const json* const value = fields.Find(kStructuredOutputs);
  if (value == nullptr) return;
  if (!value->is_object())
    return fields.FailKind(std::string(kStructuredOutputs), "an object", *value);
  JsonFields structured = fields.Inner(*value, std::string(kStructuredOutputs));
  structured.Refuse(kUnservedOfStructures);
  structured.Ignore(kIgnoredOfStructures);
  if (const json* const schema = structured.Find("json")) {
    reader.Schema(structured.PathOf("json"), *schema,
                  JsonTextOfMember(fields.BodyText(kStructuredOutputs), "json"));
  }
  if (auto text = structured.String("regex")) {
    reader.Regex(structured.PathOf("regex"), *std::move(text));
  }
  if (const json* const choices = structured.Find("choice")) {
    reader.Choice(structured.PathOf("choice"), *choices);
  }
  if (auto text = structured.String("grammar")) {
    reader.Grammar(structured.PathOf("grammar"), *std::move(text));
  }
  if (structured.Bool("json_object").value_or(false)) {
    reader.AnyObject(structured.PathOf("json_object"));
  }
  fields.Fail(structured.Finish());
}

// vLLM took these before structured_outputs. Empty values ask for nothing.
void ReadGuidedFields(JsonFields& fields, ConstraintReader& reader) {
  if (const json* const schema = fields.Find("guided_json")) {
    reader.Schema("guided_json", *schema, fields.BodyText("guided_json"));
  }
  if (auto text = fields.String("guided_regex"); text && !text->empty()) {
    reader.Regex("guided_regex", *std::move(text));
  }
  if (const json* const choices = fields.Find("guided_choice")) {
    if (!choices->is_array() || !choices->empty()) reader.Choice("guided_choice", *choices);
  }
  if (auto text = fields.String("guided_grammar"); text && !text->empty()) {
    reader.Grammar("guided_grammar", *std::move(text));
  }
}

}  // namespace

void ReadConstraintFields(JsonFields& fields, v1::SamplingParams& sampling) {
  ConstraintReader reader(fields, sampling);
  ReadResponseFormat(fields, reader);
  ReadStructuredOutputs(fields, reader);
  ReadGuidedFields(fields, reader);
}

}  // namespace lockstep::router
