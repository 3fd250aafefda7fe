#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"
#include "common/model_files/quantization/quantization_config.h"

// Shared parts of the readers of quantization_config; each method has one reader. Internal.
namespace lockstep {

struct QuantizationObject {
  const nlohmann::json& object;
  std::string_view text;  // of the same object, with its members in the file's order
  std::string file;
  std::string path;  // "quantization_config"
};

using QuantizationRules = std::vector<QuantizationConfig::Rule>;

struct ParsedMethod {
  QuantizationRules rules;
  std::optional<KvCacheScheme> kv_cache = std::nullopt;
};

absl::StatusOr<ParsedMethod> ParseCompressedTensors(const QuantizationObject& config);
absl::StatusOr<ParsedMethod> ParseGptq(const QuantizationObject& config);
absl::StatusOr<ParsedMethod> ParseAwq(const QuantizationObject& config);
absl::StatusOr<ParsedMethod> ParseFp8(const QuantizationObject& config);
absl::StatusOr<ParsedMethod> ParseModelOpt(const QuantizationObject& config);
absl::StatusOr<ParsedMethod> ParseMxfp4(const QuantizationObject& config);

// Skips members that do not affect the weights' layout.
void SkipHarmless(JsonObjectReader& reader, std::span<const std::string_view> keys);
// INVALID_ARGUMENT names the first unread member.
absl::Status RefuseUnreadKeys(JsonObjectReader& reader);
std::string QuotedList(std::span<const std::string_view> values);  // "a", "b" or "c"
// Reads a member that is absent or one of `values`; the error lists their names. In lower case.
absl::StatusOr<std::optional<std::string>> ReadOneOf(JsonObjectReader& reader, std::string_view key,
                                                     std::span<const std::string_view> values);
// An absent member counts as `value`. Another value is refused.
absl::Status ExpectBool(JsonObjectReader& reader, std::string_view key, bool value);
// Requires the member to be absent, {} or [].
absl::Status ExpectEmpty(JsonObjectReader& reader, std::string_view key);
absl::StatusOr<std::vector<std::string>> ReadNames(JsonObjectReader& reader, std::string_view key);
// A number of columns; 0 stands for a whole row, which files write as -1.
absl::StatusOr<std::optional<uint32_t>> ReadGroupSize(JsonObjectReader& reader,
                                                      std::string_view key);
// [rows, columns]
struct BlockSize {
  uint32_t rows, columns;
};
absl::StatusOr<std::optional<BlockSize>> ReadBlockSize(JsonObjectReader& reader,
                                                       std::string_view key);
// Makes the rule of modules_to_not_convert, or of a member with the same meaning.
absl::StatusOr<QuantizationConfig::Rule> ReadNotConverted(JsonObjectReader& reader,
                                                          std::string_view key);
// Adds a rule for every module that no earlier rule names.
void AddSchemeForTheRest(const WeightScheme& scheme, QuantizationRules* rules);
// The matrix of the logits.
inline constexpr std::string_view kHeadExpression = "(?:.*\\.)?lm_head$";
// An expression of this file's code, which is valid.
ModulePattern KnownRegex(const std::string& expression);

}  // namespace lockstep
