#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/runtime/mapped_file.h"

// Reader of GGUF files, versions 2 and 3, little endian.
// Format: github.com/ggml-org/ggml, docs/gguf.md. Every count, length and offset is checked against
// the size of the file before anything is allocated; errors name the file, the offset or key, and
// what was expected.
namespace lockstep {

// The first bytes of every file.
inline constexpr std::string_view kGgufMagic = "GGUF";

// Numbers of the file format. Types that we cannot dequantise still parse, so that errors can name
// them. A file with a tensor of any other type is refused, because the tensor's size is unknown.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kBF16 = 30,
};

// "Q4_1"; "type 99" for a number outside the enum.
std::string GgmlTypeName(GgmlType type);

// A row is a whole number of blocks. nullopt for a number outside the enum.
struct GgmlBlockSize {
  uint32_t num_elements;
  uint32_t num_bytes;
};
std::optional<GgmlBlockSize> GgmlTypeBlockSize(GgmlType type);

struct GgufArray;
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view,
                               std::shared_ptr<const GgufArray>>;

// Elements of one of the scalar kinds; strings view into the file.
struct GgufArray {
  std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string_view>>
      elements;
};

struct GgufTensor {
  std::string_view name;
  GgmlType type;
  std::vector<uint64_t> shape;      // outermost first, as [rows, columns]; the file has the reverse
  std::span<const std::byte> data;  // exactly the tensor's bytes
};

class GgufFile {
 public:
  static absl::StatusOr<GgufFile> Open(const std::string& path);
  // Does not own `bytes`, which must outlive the object. `name` stands for the path in errors.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }

  std::vector<std::string_view> Keys() const;  // sorted
  // nullptr if absent.
  const GgufValue* Find(std::string_view key) const;
  // Typed access. NOT_FOUND if the key is absent. INVALID_ARGUMENT names file and key if the type
  // does not fit. Integers of any width convert if the value fits.
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<uint64_t> GetUint(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;  // integers convert as well
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::span<const std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(std::string_view key) const;

  std::span<const GgufTensor> tensors() const { return tensors_; }  // sorted by name
  const GgufTensor* FindTensor(std::string_view name) const;        // nullptr if absent

 private:
  struct Metadata;  // sorted by key
  GgufFile() = default;
  absl::StatusOr<const GgufValue*> Require(std::string_view key) const;
  absl::Status WrongKind(std::string_view key, const GgufValue& value,
                         std::string_view expected) const;

  std::string name_;
  std::shared_ptr<const MappedFile> file_;  // null after Parse
  std::shared_ptr<const Metadata> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace lockstep
