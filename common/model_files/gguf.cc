#include "common/model_files/gguf.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/model_files/gguf_parser.h"
#include "common/status.h"

namespace lockstep {

struct GgufFile::Metadata {
  std::vector<GgufEntry> entries;
};

namespace {

constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

std::string_view KindName(const GgufArray& array) {
  switch (array.elements.index()) {
    case 0:
      return "array of unsigned integers";
    case 1:
      return "array of integers";
    case 2:
      return "array of floats";
    case 3:
      return "array of bools";
    default:
      return "array of strings";
  }
}

std::string_view KindName(const GgufValue& value) {
  switch (value.index()) {
    case 0:
      return "unsigned integer";
    case 1:
      return "integer";
    case 2:
      return "float";
    case 3:
      return "bool";
    case 4:
      return "string";
    default:
      return KindName(*std::get<std::shared_ptr<const GgufArray>>(value));
  }
}

// nullptr unless `value` is an array of `Element`.
template <typename Element>
const std::vector<Element>* ArrayOf(const GgufValue& value) {
  const auto* array = std::get_if<std::shared_ptr<const GgufArray>>(&value);
  return array == nullptr ? nullptr : std::get_if<std::vector<Element>>(&(*array)->elements);
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  auto file = std::make_shared<const MappedFile>(std::move(mapped));
  LOCKSTEP_ASSIGN_OR_RETURN(GgufFile result, Parse(file->bytes(), path));
  result.file_ = std::move(file);
  return result;
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, std::string name) {
  LOCKSTEP_ASSIGN_OR_RETURN(GgufContents contents, ParseGguf(bytes, name));
  GgufFile file;
  file.name_ = std::move(name);
  file.metadata_ = std::make_shared<const Metadata>(Metadata{std::move(contents.metadata)});
  file.tensors_ = std::move(contents.tensors);
  return file;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto& entries = metadata_->entries;
  const auto it = std::lower_bound(
      entries.begin(), entries.end(), key,
      [](const GgufEntry& entry, std::string_view wanted) { return entry.first < wanted; });
  return it != entries.end() && it->first == key ? &it->second : nullptr;
}

std::vector<std::string_view> GgufFile::Keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(metadata_->entries.size());
  for (const GgufEntry& entry : metadata_->entries) keys.push_back(entry.first);
  return keys;
}

absl::StatusOr<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return NotFound("{}: metadata key {} is missing", name_, key);
  return value;
}

absl::Status GgufFile::WrongKind(std::string_view key, const GgufValue& value,
                                 std::string_view expected) const {
  return InvalidArgument("{}: metadata key {} is of kind {}, expected {}", name_, key,
                         KindName(value), expected);
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return WrongKind(key, *value, "string");
  return *text;
}

absl::StatusOr<uint64_t> GgufFile::GetUint(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) {
    if (*number >= 0) return static_cast<uint64_t>(*number);
    return InvalidArgument("{}: metadata key {} is {}, expected a number >= 0", name_, key,
                           *number);
  }
  return WrongKind(key, *value, "unsigned integer");
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return WrongKind(key, *value, "float");
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) return WrongKind(key, *value, "bool");
  return *flag;
}

absl::StatusOr<std::span<const std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  const auto* strings = ArrayOf<std::string_view>(*value);
  if (strings == nullptr) return WrongKind(key, *value, "array of strings");
  return std::span<const std::string_view>(*strings);
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  if (const auto* numbers = ArrayOf<int64_t>(*value)) return *numbers;
  const auto* numbers = ArrayOf<uint64_t>(*value);
  if (numbers == nullptr) return WrongKind(key, *value, "array of integers");
  for (const uint64_t number : *numbers) {
    if (number > kMaxInt64) {
      return InvalidArgument("{}: metadata key {} holds {}, expected at most {}", name_, key,
                             number, kMaxInt64);
    }
  }
  return std::vector<int64_t>(numbers->begin(), numbers->end());
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const GgufTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

}  // namespace lockstep
