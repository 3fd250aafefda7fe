#include "common/model_files/safetensors_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/status.h"

namespace lockstep {
namespace {

constexpr size_t kHeaderAlignment = 8;  // of the data section, as the reference implementation

std::string HeaderOf(const std::vector<TensorSpec>& tensors,
                     const std::vector<std::pair<std::string, std::string>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const uint64_t end = offset + tensor.num_bytes();
    header[tensor.name] = {{"dtype", SafetensorsDtypeName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

}  // namespace

struct SafetensorsWriter::File {
  std::string path;
  std::string partial_path;
  std::FILE* stream = nullptr;
  std::vector<TensorSpec> tensors;
  size_t next = 0;

  ~File() {
    if (stream == nullptr) return;
    std::fclose(stream);
    std::remove(partial_path.c_str());
  }

  absl::Status Failed(std::string_view what) const {
    return Internal("{}: cannot {}: {}", partial_path, what, std::strerror(errno));
  }
  absl::Status Write(std::span<const std::byte> bytes) {
    if (bytes.empty()) return absl::OkStatus();  // of a tensor without elements
    if (std::fwrite(bytes.data(), 1, bytes.size(), stream) != bytes.size()) return Failed("write");
    return absl::OkStatus();
  }
};

uint64_t TensorSpec::num_bytes() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{SafetensorsDtypeBytes(dtype)},
                         std::multiplies<>());
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorSpec> tensors,
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return MakeError(absl::StatusCode::kAlreadyExists, "{} exists already", path);
  }
  auto file = std::make_unique<File>();
  file->path = path;
  file->partial_path = path + ".partial";
  file->tensors = std::move(tensors);
  file->stream = std::fopen(file->partial_path.c_str(), "wb");
  if (file->stream == nullptr) return file->Failed("create");
  const std::string header = HeaderOf(file->tensors, metadata);
  const uint64_t length = header.size();
  LOCKSTEP_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(&length, 1))));
  LOCKSTEP_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(header))));
  return SafetensorsWriter(std::move(file));
}

absl::Status SafetensorsWriter::Append(const TensorSpec& tensor, std::span<const std::byte> bytes) {
  File& file = *file_;
  if (file.next == file.tensors.size() || !(file.tensors[file.next] == tensor)) {
    return Internal("{}: tensor {} is not the next that was named", file.path, tensor.name);
  }
  if (bytes.size() != tensor.num_bytes()) {
    return Internal("{}: tensor {} has {} bytes, expected {}", file.path, tensor.name, bytes.size(),
                    tensor.num_bytes());
  }
  ++file.next;
  return file.Write(bytes);
}

absl::Status SafetensorsWriter::Finish() {
  File& file = *file_;
  if (file.next != file.tensors.size()) {
    return Internal("{}: tensor {} was not written", file.path, file.tensors[file.next].name);
  }
  std::FILE* const stream = std::exchange(file.stream, nullptr);
  const bool is_closed = std::fclose(stream) == 0;
  if (is_closed && std::rename(file.partial_path.c_str(), file.path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const absl::Status failed = file.Failed("complete the file");
  std::remove(file.partial_path.c_str());
  return failed;
}

}  // namespace lockstep
