// Schemas that nobody wrote become a grammar or an error.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/calls/grammar/call_grammar.h"
#include "router/calls/output_format_table.h"
#include "router/text/unicode/utf8.h"
#include "tests/router/calls/grammar/marker_tokenizer.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

#ifdef LOCKSTEP_SANITIZED
constexpr int kRounds = 400;
#else
constexpr int kRounds = 4000;
#endif

// Schemas of keywords with operands that often fit.
class SchemaMaker {
 public:
  json Schema(int depth) {
    if (random_() % 12 == 0) return Value(depth);
    json schema = json::object();
    for (size_t n = random_() % 4; n > 0; --n) AddKeyword(schema, depth);
    return schema;
  }

  json Root() {
    json schema = Schema(3);
    if (!schema.is_object()) schema = json::object();
    if (random_() % 4 != 0) schema.erase("type");
    json properties = json::object();
    for (size_t n = random_() % 4; n > 0; --n) properties[Name()] = Schema(3);
    if (random_() % 16 != 0) schema["properties"] = properties;
    if (random_() % 2 == 0) schema["required"] = {Name()};
    schema["$defs"] = random_() % 16 == 0 ? Value(2) : json({{"A", Schema(2)}});
    return schema;
  }

 private:
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }

  std::string Name() {
    return OneOf<std::string>({"a", "b", "a-b", "", "a<b", "\u00e9", "a\"b\\\n", "$ref", "::="});
  }

  json Value(int depth) {
    switch (random_() % 9) {
      case 0:
        return nullptr;
      case 1:
        return random_() % 2 == 0;
      case 2:
        return static_cast<int>(random_() % 7) - 3;
      case 3:
        return 1e300;
      case 4:
        return OneOf<std::string>({"x", "null", "5", "</parameter>", "\n", "::=", "{", "\u00e9"});
      case 5:
        return OneOf<std::string>(
            {"string", "integer", "number", "boolean", "null", "object", "array", "other"});
      case 6:
        return OneOf<std::string>({"#", "#/$defs/A", "#/$defs/", "#/$defs/A/B", "#/definitions/A",
                                   "#/$defs", "http://x"});
      case 7:
        return depth > 0 ? json::array({Schema(depth - 1), Value(depth - 1)}) : json::array();
      default:
        return depth > 0 ? Schema(depth - 1) : json::object();
    }
  }

  void AddKeyword(json& schema, int depth) {
    const std::string keyword = OneOf<std::string>({"type",
                                                    "type",
                                                    "type",
                                                    "enum",
                                                    "const",
                                                    "$ref",
                                                    "anyOf",
                                                    "oneOf",
                                                    "allOf",
                                                    "not",
                                                    "minLength",
                                                    "maxLength",
                                                    "pattern",
                                                    "format",
                                                    "minimum",
                                                    "items",
                                                    "properties",
                                                    "required",
                                                    "additionalProperties",
                                                    "description",
                                                    "nullable",
                                                    "x-guidance"});
    if (keyword == "type" && random_() % 8 != 0) {
      schema[keyword] = OneOf<json>({"string", "integer", "number", "boolean", "null", "object",
                                     "array", json::array({"string", "null"}),
                                     json::array({"integer", "string", "object"})});
    } else {
      schema[keyword] = Value(depth);
    }
  }

  std::mt19937 random_{11};
};

TEST(HostileSchemasTest, BecomeAGrammarOrAnError) {
  const auto plain = MarkerTokenizer({});
  const auto special = MarkerTokenizer(MarkerTokens());
  SchemaMaker maker;
  size_t num_grammars = 0;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    const json tool = {{"type", "function"},
                       {"function", {{"name", "f"}, {"parameters", maker.Root()}}}};
    const std::string tools = "[" + tool.dump() + "]";
    SCOPED_TRACE(tools);
    const ToolList known = *ToolList::Parse(tools);
    for (const OutputFormat& format : OutputFormats()) {
      if (!CanForceCalls(format)) continue;
      const absl::StatusOr<std::string> grammar =
          CallGrammar(format, CallableTools(tools, ""), known, {.single = round % 2 == 0},
                      round % 3 == 0 ? *special : *plain);
      if (grammar.ok()) {
        ++num_grammars;
        EXPECT_FALSE(FindInvalidUtf8(*grammar));
        // The engine would take it for another kind of grammar.
        EXPECT_EQ(grammar->find("::="), std::string::npos);
      } else {
        EXPECT_TRUE(Message(grammar.status()).starts_with("[0].function.parameters: "))
            << grammar.status();
      }
    }
  }
  EXPECT_GT(num_grammars, static_cast<size_t>(kRounds));
}

}  // namespace
}  // namespace lockstep::router
