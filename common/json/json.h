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

// Parses JSON from untrusted sources. Include this in few .cc files only: nlohmann's header is slow
// to compile.
namespace lockstep {

struct JsonLimits {
  size_t max_depth = 64;           // of nested objects and arrays
  size_t max_values = 10'000'000;  // of all kinds; bounds the memory of the result
  size_t max_quoted_bytes = 100;   // of the text in an error; 0 if the text holds secrets
};

// Called with the approximate size of the result so far, whenever it has grown considerably. If it
// returns false, parsing ends with RESOURCE_EXHAUSTED.
using JsonMeter = std::function<bool(size_t num_bytes)>;

// The original text of one member of the root object, for readers that need the order of keys,
// which ParseJson sorts. `text` is the value's part of the input, or "" if there is no such member.
struct JsonMemberText {
  std::string_view key = {};
  std::string_view text = {};
};

// Parses strict JSON. Errors name `name`, the byte offset and the problem. A key that appears twice
// in one object is an error. `meter` null: only the limits apply. `member` not null: sets its text.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name,
                                         JsonLimits limits = {}, const JsonMeter& meter = nullptr,
                                         JsonMemberText* member = nullptr);

// Applies `change` to every string and key of valid JSON and returns compact JSON. Members keep
// their order. `change` may return any bytes.
std::string RewriteJson(std::string_view text,
                        const std::function<std::string(std::string)>& change);

// Typed access to the members of one object. Remembers which members were read, so that a reader
// can refuse unknown members. Does not own the object. A null member counts as absent. Errors name
// the file, the member's path and what was expected.
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

// A value for an error message: its JSON text, cut after a few dozen characters, or its number of
// members. Large values take no longer than small ones.
std::string DescribeJson(const nlohmann::json& value);

}  // namespace lockstep
