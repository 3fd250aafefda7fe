#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "common/model_files/gguf_parser.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

constexpr uint64_t kMaxKeyBytes = 1024;
constexpr uint64_t kMaxStringBytes = std::numeric_limits<uint64_t>::max();  // limited by the file
constexpr uint64_t kMaxArrayElements = 1 << 24;

enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Reads the value of one key.
class ValueParser {
 public:
  ValueParser(GgufCursor& cursor, std::string_view key) : cursor_(cursor), key_(ShownName(key)) {}

  absl::StatusOr<GgufValue> ReadValue();

 private:
  template <typename Stored, typename InFile>
  absl::StatusOr<GgufValue> ReadNumber();
  template <typename Stored, typename InFile>
  absl::StatusOr<GgufValue> ReadNumbers(uint64_t count);
  absl::StatusOr<GgufValue> ReadBools(uint64_t count);
  absl::StatusOr<GgufValue> ReadStrings(uint64_t count);
  absl::StatusOr<GgufValue> ReadArray();

  GgufCursor& cursor_;
  const std::string key_;  // as messages show it
};

template <typename Elements>
GgufValue MakeArray(Elements elements) {
  return std::make_shared<const GgufArray>(GgufArray{std::move(elements)});
}

template <typename Stored, typename InFile>
absl::StatusOr<GgufValue> ValueParser::ReadNumber() {
  LOCKSTEP_ASSIGN_OR_RETURN(const InFile value,
                            cursor_.Read<InFile>(fmt::format("the value of {}", key_)));
  return GgufValue(static_cast<Stored>(value));
}

template <typename Stored, typename InFile>
absl::StatusOr<GgufValue> ValueParser::ReadNumbers(uint64_t count) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::span<const std::byte> bytes,
      cursor_.ReadBytes(fmt::format("the array {}", key_), count * sizeof(InFile)));
  std::vector<Stored> elements(count);
  for (uint64_t i = 0; i < count; ++i) {
    InFile value;
    std::memcpy(&value, bytes.data() + i * sizeof(InFile), sizeof(InFile));
    elements[i] = static_cast<Stored>(value);
  }
  return MakeArray(std::move(elements));
}

absl::StatusOr<GgufValue> ValueParser::ReadBools(uint64_t count) {
  const std::string what = fmt::format("an element of {}", key_);
  std::vector<bool> elements;
  elements.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool element, cursor_.ReadBool(what));
    elements.push_back(element);
  }
  return MakeArray(std::move(elements));
}

absl::StatusOr<GgufValue> ValueParser::ReadStrings(uint64_t count) {
  const std::string what = fmt::format("an element of {}", key_);
  std::vector<std::string_view> elements;
  elements.reserve(std::min<uint64_t>(count, cursor_.remaining() / sizeof(uint64_t)));
  for (uint64_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view element,
                              cursor_.ReadString(what, kMaxStringBytes));
    elements.push_back(element);
  }
  return MakeArray(std::move(elements));
}

absl::StatusOr<GgufValue> ValueParser::ReadArray() {
  const size_t type_offset = cursor_.offset();
  LOCKSTEP_ASSIGN_OR_RETURN(const uint32_t type,
                            cursor_.Read<uint32_t>(fmt::format("the element type of {}", key_)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const uint64_t count,
      cursor_.ReadCount(fmt::format("the number of elements of {}", key_), 1, kMaxArrayElements));
  switch (static_cast<ValueType>(type)) {
    case ValueType::kUint8:
      return ReadNumbers<uint64_t, uint8_t>(count);
    case ValueType::kInt8:
      return ReadNumbers<int64_t, int8_t>(count);
    case ValueType::kUint16:
      return ReadNumbers<uint64_t, uint16_t>(count);
    case ValueType::kInt16:
      return ReadNumbers<int64_t, int16_t>(count);
    case ValueType::kUint32:
      return ReadNumbers<uint64_t, uint32_t>(count);
    case ValueType::kInt32:
      return ReadNumbers<int64_t, int32_t>(count);
    case ValueType::kFloat32:
      return ReadNumbers<double, float>(count);
    case ValueType::kBool:
      return ReadBools(count);
    case ValueType::kString:
      return ReadStrings(count);
    case ValueType::kUint64:
      return ReadNumbers<uint64_t, uint64_t>(count);
    case ValueType::kInt64:
      return ReadNumbers<int64_t, int64_t>(count);
    case ValueType::kFloat64:
      return ReadNumbers<double, double>(count);
    case ValueType::kArray:
      return cursor_.Error(type_offset, "{} is an array of arrays, which is not supported", key_);
  }
  return cursor_.Error(type_offset, "the element type of {} is {}, expected 0 to 12", key_, type);
}

absl::StatusOr<GgufValue> ValueParser::ReadValue() {
  // The file may hold a type that has no case. The analyzer believes that the switch covers all.
  // NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores)
  const size_t type_offset = cursor_.offset();
  LOCKSTEP_ASSIGN_OR_RETURN(const uint32_t type,
                            cursor_.Read<uint32_t>(fmt::format("the type of {}", key_)));
  const std::string what = fmt::format("the value of {}", key_);
  switch (static_cast<ValueType>(type)) {
    case ValueType::kUint8:
      return ReadNumber<uint64_t, uint8_t>();
    case ValueType::kInt8:
      return ReadNumber<int64_t, int8_t>();
    case ValueType::kUint16:
      return ReadNumber<uint64_t, uint16_t>();
    case ValueType::kInt16:
      return ReadNumber<int64_t, int16_t>();
    case ValueType::kUint32:
      return ReadNumber<uint64_t, uint32_t>();
    case ValueType::kInt32:
      return ReadNumber<int64_t, int32_t>();
    case ValueType::kFloat32:
      return ReadNumber<double, float>();
    case ValueType::kUint64:
      return ReadNumber<uint64_t, uint64_t>();
    case ValueType::kInt64:
      return ReadNumber<int64_t, int64_t>();
    case ValueType::kFloat64:
      return ReadNumber<double, double>();
    case ValueType::kBool: {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool value, cursor_.ReadBool(what));
      return GgufValue(value);
    }
    case ValueType::kString: {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view text,
                                cursor_.ReadString(what, kMaxStringBytes));
      return GgufValue(text);
    }
    case ValueType::kArray:
      return ReadArray();
  }
  return cursor_.Error(type_offset, "the type of {} is {}, expected 0 to 12", key_, type);
}

}  // namespace

absl::StatusOr<std::vector<GgufEntry>> ParseGgufMetadata(GgufCursor& cursor, uint64_t num_entries) {
  std::vector<GgufEntry> entries;
  entries.reserve(num_entries);
  for (uint64_t i = 0; i < num_entries; ++i) {
    const size_t at = cursor.offset();
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view key,
                              cursor.ReadString("a metadata key", kMaxKeyBytes));
    if (key.empty()) return cursor.Error(at, "metadata entry {} has an empty key", i);
    LOCKSTEP_ASSIGN_OR_RETURN(GgufValue value, ValueParser(cursor, key).ReadValue());
    entries.emplace_back(key, std::move(value));
  }
  std::sort(entries.begin(), entries.end(),
            [](const GgufEntry& a, const GgufEntry& b) { return a.first < b.first; });
  const auto twin =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const GgufEntry& a, const GgufEntry& b) { return a.first == b.first; });
  if (twin != entries.end()) {
    return InvalidArgument("{}: metadata key {} is present twice", cursor.name(),
                           ShownName(twin->first));
  }
  return entries;
}

}  // namespace lockstep
