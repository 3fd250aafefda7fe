#include "tests/kernels/formats/module_files.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::kernels {

ModuleFiles ModuleFiles::FromGolden(const SafetensorsFile& golden, std::string_view name) {
  ModuleFiles files{std::string(name)};
  const std::string prefix = fmt::format("{}.", name);
  for (const SafetensorsTensor& tensor : golden.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    files.Set({.suffix = tensor.name.substr(prefix.size()),
               .dtype = tensor.dtype,
               .shape = tensor.shape,
               .bytes = {tensor.data.begin(), tensor.data.end()}});
  }
  return files;
}

ModuleFiles ModuleFiles::FromEncoded(const std::vector<EncodedTensor>& tensors) {
  ModuleFiles files("module");
  for (const EncodedTensor& tensor : tensors) files.Set(tensor);
  return files;
}

void ModuleFiles::Set(EncodedTensor tensor) {
  std::string suffix = tensor.suffix;
  tensors_.insert_or_assign(std::move(suffix), std::move(tensor));
}

ModuleTensors ModuleFiles::View() {
  views_.clear();
  for (const auto& [suffix, tensor] : tensors_) views_.emplace(suffix, tensor.View(module_));
  return {.module = module_, .find = [this](std::string_view suffix) {
            const auto found = views_.find(std::string(suffix));
            return found == views_.end() ? nullptr : &found->second;
          }};
}

const SafetensorsFile& GoldenFile(std::string_view name) {
  static auto& files = *new std::map<std::string, SafetensorsFile>();
  const std::string path = fmt::format("tests/golden/formats/{}.safetensors", name);
  if (const auto found = files.find(path); found != files.end()) return found->second;
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  LOCKSTEP_CHECK(file.ok(), "{}", Message(file.status()));
  return files.emplace(path, *std::move(file)).first->second;
}

std::vector<uint16_t> ValueBits(const QuantizedMatrix& matrix) {
  std::vector<BFloat16> row(static_cast<size_t>(matrix.k));
  std::vector<uint16_t> bits;
  for (int64_t n = 0; n < matrix.n; ++n) {
    DequantizeRow(matrix, n, row.data());
    for (const BFloat16 value : row) bits.push_back(value.bits);
  }
  return bits;
}

}  // namespace lockstep::kernels
