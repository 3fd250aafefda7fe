#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// JSON from files that we do not trust. Include it in few .cc files only: nlohmann's header is
// heavy.
namespace lockstep {

struct JsonLimits {
  size_t max_depth = 64;           // of nested objects and arrays
  size_t max_values = 10'000'000;  // of all kinds, which bounds the memory of the result
  size_t max_quoted_bytes = 100;   // of the text in an error; 0 where the text holds secrets
};

// Is told about how many bytes the result takes so far, each time it has grown considerably. If it
// returns false, parsing ends with RESOURCE_EXHAUSTED.
using JsonMeter = std::function<bool(size_t num_bytes)>;

// One member of the root object, for readers to whom the order of keys matters: what ParseJson
// returns has them sorted. `text` is that of its value, a part of the whole, or "" without such a
// member.
struct JsonMemberText {
  std::string_view key = {};
  std::string_view text = {};
};

// Strict JSON: an error names `name`, the byte offset and what is wrong; a key that appears twice
// in one object is an error. `meter` null: only the limits apply.
// `member` not null: its text is set.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name,
                                         JsonLimits limits = {}, const JsonMeter& meter = nullptr,
                                         JsonMemberText* member = nullptr);

// Valid JSON again, compact, with `change` applied to every string and key. Members keep their
// order. What `change` returns may hold any bytes.
std::string RewriteJson(std::string_view text,
                        const std::function<std::string(std::string)>& change);

// Typed access to the members of one object. Remembers which members were asked for, so that a
// reader can refuse the members that it does not know. Does not own the object. A member that is
// null counts as absent. Errors name the file, the member's path and what was expected.
class JsonObjectReader {
 public:
  // `name`: of the file. `path`: the object's place in the file, "" for the root. `quotes_values`
  // false: errors quote no values, because these may be secrets.
  JsonObjectReader(const nlohmann::json& object, std::string name, std::string path = "",
                   bool quotes_values = true);

  // nullptr when absent or null.
  const nlohmann::json* Find(std::string_view key);
  bool IsNull(std::string_view key) const;  // present and null

  absl::StatusOr<std::optional<uint64_t>> Uint(std::string_view key);
  absl::StatusOr<std::optional<double>> Number(std::string_view key);  // finite; integers too
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key);
  absl::StatusOr<std::optional<std::string>> String(std::string_view key);

  // Members that were never asked for, in the object's order.
  std::vector<std::string> UnreadKeys() const;
  // "config.json: rope_scaling.factor": the start of an error about a member.
  std::string Where(std::string_view key) const;

 private:
  absl::Status WrongKind(std::string_view key, const nlohmann::json& value,
                         std::string_view expected) const;

  const nlohmann::json& object_;
  const std::string name_;
  const std::string path_;
  const bool quotes_values_;
  std::vector<std::string> read_;
};

// A value for an error message: its JSON text, cut after a few dozen characters, or how many
// members it has. A large value takes no longer than a small one.
std::string DescribeJson(const nlohmann::json& value);

}  // namespace lockstep
