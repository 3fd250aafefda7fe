#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "router/calls/grammar/argument_schema.h"

// The values that a schema allows, told apart by their kinds. Pure. Include this in few .cc files
// only.
namespace lockstep::router {

// A string that a schema allows. Lengths are in code points.
struct StringChoice {
  std::optional<std::string_view> literal = std::nullopt;
  size_t min_length = 0;
  std::optional<size_t> max_length = std::nullopt;
};
// The values of a schema that have this type: integer, number, object or array.
struct TypedSchema {
  const OrderedJson* schema;
  std::string_view type;
  // If there are any: values that fit exactly one of these, instead. They are of one kind.
  std::vector<TypedSchema> one_of = {};
};
// What a schema allows, by the kinds of values. Views and pointers lead into the schemas.
struct ValueChoices {
  bool anything = false;  // the schema allows every value
  std::vector<StringChoice> strings = {};
  std::set<std::string_view> words = {};            // of null, true and false
  std::vector<const OrderedJson*> numbers = {};     // single ones
  std::vector<const OrderedJson*> structures = {};  // single lists and objects
  std::vector<TypedSchema> schemas = {};
};
// UNIMPLEMENTED if texts cannot show which value is meant. The schemas must outlive the choices.
absl::StatusOr<ValueChoices> ChoicesOf(const OrderedJson& value, const OrderedJson& root);

// A schema of its own: the keywords that values can violate, with the one type.
OrderedJson CopyOf(const TypedSchema& typed);
// Whether the values are numbers.
bool IsNumeric(const TypedSchema& typed);
// It says nothing but the type.
bool IsFree(const TypedSchema& typed);

}  // namespace lockstep::router
