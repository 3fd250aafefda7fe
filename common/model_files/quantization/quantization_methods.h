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

// Internal to the readers of quantization_config: one reader a method, and what they share.
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

// Members that say nothing about the weights' layout.
void SkipHarmless(JsonObjectReader& reader, std::span<const std::string_view> keys);
// INVALID_ARGUMENT naming the first member that nobody read.
absl::Status RefuseUnreadKeys(JsonObjectReader& reader);
std::string QuotedList(std::span<const std::string_view> values);  // "a", "b" or "c"
// An absent member, or one of `values`, whose names stand in the error. In lower case.
absl::StatusOr<std::optional<std::string>> ReadOneOf(JsonObjectReader& reader, std::string_view key,
                                                     std::span<const std::string_view> values);
// An absent member counts as `value`; another value is refused.
absl::Status ExpectBool(JsonObjectReader& reader, std::string_view key, bool value);
// The member is absent, {} or [].
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
// A rule for modules_to_not_convert, or whatever the member is called.
absl::StatusOr<QuantizationConfig::Rule> ReadNotConverted(JsonObjectReader& reader,
                                                          std::string_view key);
// Every module that no rule before this one has named.
void AddSchemeForTheRest(const WeightScheme& scheme, QuantizationRules* rules);
// The matrix of the logits.
inline constexpr std::string_view kHeadExpression = "(?:.*\\.)?lm_head$";
// An expression of this file's code, which is valid.
ModulePattern KnownRegex(const std::string& expression);

}  // namespace lockstep
