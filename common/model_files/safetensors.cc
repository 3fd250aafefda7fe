#include "common/model_files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "common/json/json.h"
#include "common/model_files/file_kind.h"
#include "common/runtime/logging.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "the header's length is read as it lies");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // limit of the reference implementation
constexpr size_t kMaxIndexBytes = 100'000'000;
// A tensor entry has about nine values; this bounds the memory of a hostile header.
constexpr JsonLimits kHeaderLimits = {.max_depth = 4, .max_values = 4'000'000};
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

struct DtypeInfo {
  SafetensorsDtype dtype;
  std::string_view name;
  size_t num_bytes;
};

constexpr DtypeInfo kDtypes[] = {
    {SafetensorsDtype::kF64, "F64", 8},        {SafetensorsDtype::kF32, "F32", 4},
    {SafetensorsDtype::kF16, "F16", 2},        {SafetensorsDtype::kBF16, "BF16", 2},
    {SafetensorsDtype::kI64, "I64", 8},        {SafetensorsDtype::kI32, "I32", 4},
    {SafetensorsDtype::kI16, "I16", 2},        {SafetensorsDtype::kI8, "I8", 1},
    {SafetensorsDtype::kU8, "U8", 1},          {SafetensorsDtype::kBool, "BOOL", 1},
    {SafetensorsDtype::kF8E4M3, "F8_E4M3", 1}, {SafetensorsDtype::kF8E5M2, "F8_E5M2", 1},
};

const DtypeInfo& InfoOf(SafetensorsDtype dtype) {
  return *std::find_if(std::begin(kDtypes), std::end(kDtypes),
                       [dtype](const DtypeInfo& info) { return info.dtype == dtype; });
}

std::optional<SafetensorsDtype> ParseDtype(std::string_view name) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

// The JSON header and the data section.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

absl::StatusOr<Sections> SplitFile(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) {
    return InvalidArgument("{}: {} bytes, expected at least the 8 bytes of the header's length",
                           name, bytes.size());
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const uint64_t left = bytes.size() - kLengthBytes;
  if (header_bytes > kMaxHeaderBytes) {
    return InvalidArgument("{}: offset 0: the header's length is {}, expected at most {}", name,
                           header_bytes, kMaxHeaderBytes);
  }
  if (header_bytes > left) {
    return InvalidArgument(
        "{}: offset 0: the header's length is {}, but {} bytes follow: the file may be cut off",
        name, header_bytes, left);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  return Sections{std::string_view(text, header_bytes), bytes.subspan(kLengthBytes + header_bytes)};
}

absl::StatusOr<std::vector<uint64_t>> ParseUintArray(const nlohmann::json* value,
                                                     const std::string& where) {
  const bool is_array = value != nullptr && value->is_array();
  if (!is_array || !std::all_of(value->begin(), value->end(), [](const nlohmann::json& element) {
        return element.is_number_unsigned();
      })) {
    return InvalidArgument("{} is {}, expected an array of integers >= 0", where,
                           value == nullptr ? "missing" : DescribeJson(*value));
  }
  return value->get<std::vector<uint64_t>>();
}

// Parses and checks one tensor of the header; `data` is the whole data section.
absl::StatusOr<SafetensorsTensor> ParseTensor(const std::string& key, const nlohmann::json& entry,
                                              std::span<const std::byte> data,
                                              const std::string& name) {
  const std::string printable = ShownName(key);
  if (!entry.is_object()) {
    return InvalidArgument("{}: tensor {} is {}, expected an object", name, printable,
                           DescribeJson(entry));
  }
  JsonObjectReader reader(entry, name, fmt::format("tensor {}", printable));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> dtype_name, reader.String("dtype"));
  if (!dtype_name) return InvalidArgument("{} is missing", reader.Where("dtype"));
  const std::optional<SafetensorsDtype> dtype = ParseDtype(*dtype_name);
  if (!dtype) {
    return InvalidArgument("{} is {}, which is not supported", reader.Where("dtype"),
                           DescribeJson(*dtype_name));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<uint64_t> shape,
                            ParseUintArray(reader.Find("shape"), reader.Where("shape")));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<uint64_t> offsets,
      ParseUintArray(reader.Find("data_offsets"), reader.Where("data_offsets")));
  if (const std::vector<std::string> unread = reader.UnreadKeys(); !unread.empty()) {
    return InvalidArgument("{} is not known; expected dtype, shape and data_offsets",
                           reader.Where(unread.front()));
  }
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    const bool is_cut = offsets.size() == 2 && offsets[0] <= offsets[1];
    return InvalidArgument("{} is [{}], expected [begin, end] within the {} bytes of data{}",
                           reader.Where("data_offsets"), ShownNumbers(offsets), data.size(),
                           is_cut ? ": the file may be cut off" : "");
  }
  uint64_t num_bytes = SafetensorsDtypeBytes(*dtype);
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(num_bytes, size, &num_bytes)) {
      return InvalidArgument("{}: the size does not fit in 64 bits", reader.Where("shape"));
    }
  }
  if (num_bytes != offsets[1] - offsets[0]) {
    return InvalidArgument("{}: tensor {}: {} [{}] takes {} bytes, but data_offsets span {}", name,
                           printable, *dtype_name, ShownNumbers(shape), num_bytes,
                           offsets[1] - offsets[0]);
  }
  return SafetensorsTensor{key, *dtype, std::move(shape), data.subspan(offsets[0], num_bytes)};
}

// The tensors must cover the data section without overlaps and holes, as the format demands.
absl::Status CheckCoverage(const std::vector<SafetensorsTensor>& tensors,
                           std::span<const std::byte> data, const std::string& name) {
  std::vector<const SafetensorsTensor*> by_offset;
  by_offset.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
  });
  uint64_t covered = 0;
  for (const SafetensorsTensor* tensor : by_offset) {
    const auto begin = static_cast<uint64_t>(tensor->data.data() - data.data());
    if (begin != covered) {
      return InvalidArgument("{}: tensor {} begins at data offset {}, expected {}: {}", name,
                             ShownName(tensor->name), begin, covered,
                             begin < covered ? "it overlaps another" : "there is a hole before it");
    }
    covered += tensor->data.size();
  }
  if (covered != data.size()) {
    return InvalidArgument("{}: the tensors take {} bytes, but the data section has {}", name,
                           covered, data.size());
  }
  return absl::OkStatus();
}

absl::Status CheckFileMetadata(const nlohmann::json& metadata, const std::string& name) {
  const bool valid = metadata.is_object() &&
                     std::all_of(metadata.begin(), metadata.end(),
                                 [](const nlohmann::json& value) { return value.is_string(); });
  if (valid) return absl::OkStatus();
  return InvalidArgument("{}: __metadata__ is {}, expected an object of strings", name,
                         DescribeJson(metadata));
}

// The shards' file names, sorted, each once; and for each tensor its shard.
struct ShardIndex {
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::string>> tensor_files;
};

absl::StatusOr<ShardIndex> ReadIndex(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxIndexBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json root, ParseModelJson(text, path, kHeaderLimits));
  const nlohmann::json* map =
      root.is_object() && root.contains("weight_map") ? &root["weight_map"] : nullptr;
  if (map == nullptr || !map->is_object() || map->empty()) {
    return InvalidArgument(
        "{}: weight_map is missing or empty, expected an object of tensor to file", path);
  }
  ShardIndex index;
  for (const auto& [tensor, file] : map->items()) {
    const std::string file_name = file.is_string() ? file.get<std::string>() : "";
    // A name with a folder would reach outside of the checkpoint.
    if (file_name.empty() || file_name == ".." ||
        file_name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      return InvalidArgument("{}: weight_map.{} is {}, expected a file name without a folder", path,
                             ShownName(tensor), DescribeJson(file));
    }
    index.files.push_back(file_name);
    index.tensor_files.emplace_back(tensor, file_name);
  }
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  return index;
}

// Reports all missing files at once: an interrupted download leaves out several.
absl::Status CheckNoShardIsMissing(const std::filesystem::path& base, const std::string& index_path,
                                   const std::vector<std::string>& files) {
  constexpr size_t kMaxNames = 8;
  std::string names;
  size_t num_missing = 0;
  for (const std::string& file : files) {
    std::error_code error;
    if (std::filesystem::exists(base / file, error)) continue;
    if (++num_missing <= kMaxNames) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", EscapeControlCharacters(file));
    }
  }
  if (num_missing == 0) return absl::OkStatus();
  if (num_missing > kMaxNames) names += ", ...";
  return NotFound("{}: {} of the {} files that weight_map names are missing: {}", index_path,
                  num_missing, files.size(), names);
}

// Describes a folder without safetensors files, for the end of an error. "" if nothing is known.
std::string_view OtherWeights(const std::filesystem::path& base) {
  constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
      {"adapter_model.safetensors",
       "; it has an adapter (LoRA), which must be merged into its base model first"},
      {"adapter_config.json",
       "; it has an adapter (LoRA), which must be merged into its base model first"},
      {"pytorch_model.bin", "; it has pytorch_model.bin, which must be converted first"},
      {"pytorch_model.bin.index.json",
       "; it has weights of PyTorch (pytorch_model-*.bin), which must be converted first"},
      {"consolidated.00.pth", "; it has Meta's own format, which must be converted first"},
  };
  for (const auto& [name, what] : kFiles) {
    std::error_code error;
    if (std::filesystem::exists(base / name, error)) return what;
  }
  return "";
}

absl::Status CheckNoTensorTwice(const std::vector<SafetensorsFile>& shards) {
  std::vector<std::pair<std::string_view, const std::string*>> owners;
  for (const SafetensorsFile& shard : shards) {
    for (const SafetensorsTensor& tensor : shard.tensors())
      owners.emplace_back(tensor.name, &shard.name());
  }
  std::sort(owners.begin(), owners.end());
  const auto twin =
      std::adjacent_find(owners.begin(), owners.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twin == owners.end()) return absl::OkStatus();
  return InvalidArgument("tensor {} is in both {} and {}", ShownName(twin->first), *twin->second,
                         *std::next(twin)->second);
}

}  // namespace

std::string_view SafetensorsDtypeName(SafetensorsDtype dtype) { return InfoOf(dtype).name; }
size_t SafetensorsDtypeBytes(SafetensorsDtype dtype) { return InfoOf(dtype).num_bytes; }

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  auto file = std::make_shared<const MappedFile>(std::move(mapped));
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsFile result, Parse(file->bytes(), path));
  result.file_ = std::move(file);
  return result;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(std::span<const std::byte> bytes,
                                                       std::string name) {
  const absl::StatusOr<Sections> split = SplitFile(bytes, name);
  const absl::StatusOr<nlohmann::json> parsed =
      split.ok() ? ParseJson(split->header, fmt::format("{}: header", name), kHeaderLimits)
                 : absl::StatusOr<nlohmann::json>(split.status());
  if (!parsed.ok()) {
    LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(bytes, name, "a safetensors file"));
    return parsed.status();
  }
  const Sections& sections = *split;
  const nlohmann::json& header = *parsed;
  if (!header.is_object()) {
    return InvalidArgument("{}: the header is {}, expected an object", name, DescribeJson(header));
  }
  SafetensorsFile file;
  for (const auto& [key, entry] : header.items()) {  // in the order of the keys
    if (key == "__metadata__") {
      LOCKSTEP_RETURN_IF_ERROR(CheckFileMetadata(entry, name));
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsTensor tensor,
                              ParseTensor(key, entry, sections.data, name));
    file.tensors_.push_back(std::move(tensor));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckCoverage(file.tensors_, sections.data, name));
  file.name_ = std::move(name);
  return file;
}

const SafetensorsTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const SafetensorsTensor& tensor, std::string_view wanted) {
                                     return tensor.name < wanted;
                                   });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

absl::StatusOr<SafetensorsCheckpoint> SafetensorsCheckpoint::Open(const std::string& folder) {
  const std::filesystem::path base(folder);
  std::error_code ignored;
  SafetensorsCheckpoint checkpoint;
  if (std::filesystem::exists(base / kSingleFile, ignored)) {
    LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(base / kSingleFile));
    checkpoint.shards_.push_back(std::move(file));
    return checkpoint;
  }
  const std::string index_path = base / kIndexFile;
  if (!std::filesystem::exists(index_path, ignored)) {
    return NotFound("{}: has neither {} nor {}{}", folder, kSingleFile, kIndexFile,
                    OtherWeights(base));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const ShardIndex index, ReadIndex(index_path));
  LOCKSTEP_RETURN_IF_ERROR(CheckNoShardIsMissing(base, index_path, index.files));
  for (const std::string& file_name : index.files) {
    LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsFile shard, SafetensorsFile::Open(base / file_name));
    checkpoint.shards_.push_back(std::move(shard));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckNoTensorTwice(checkpoint.shards_));
  for (const auto& [tensor, file_name] : index.tensor_files) {
    const auto place = std::lower_bound(index.files.begin(), index.files.end(), file_name);
    const SafetensorsFile& shard =
        checkpoint.shards_[static_cast<size_t>(place - index.files.begin())];
    if (shard.Find(tensor) == nullptr) {
      return InvalidArgument("{}: weight_map puts tensor {} into {}, which does not have it",
                             index_path, ShownName(tensor), ShownName(file_name));
    }
  }
  return checkpoint;
}

const SafetensorsTensor* SafetensorsCheckpoint::Find(std::string_view name) const {
  for (const SafetensorsFile& shard : shards_) {
    if (const SafetensorsTensor* tensor = shard.Find(name)) return tensor;
  }
  return nullptr;
}

std::vector<std::string_view> SafetensorsCheckpoint::TensorNames() const {
  std::vector<std::string_view> names;
  for (const SafetensorsFile& shard : shards_) {
    for (const SafetensorsTensor& tensor : shard.tensors()) names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep
