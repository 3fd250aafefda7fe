#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"

namespace lockstep {

// None where the file lacks the key.
absl::StatusOr<std::optional<uint32_t>> ReadUint32(const GgufFile& file, std::string_view key);

// The keys of one architecture, "llama.context_length" and so on. Remembers which were read.
class ArchitectureReader {
 public:
  ArchitectureReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(fmt::format("{}.", architecture)) {}

  const GgufFile& file() const { return file_; }
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  absl::StatusOr<std::optional<uint32_t>> Uint(std::string_view name) {
    return ReadUint32(file_, MarkRead(name));
  }

  absl::StatusOr<uint32_t> RequireUint(std::string_view name);
  absl::StatusOr<std::optional<double>> Float(std::string_view name);
  // Checks that a key that we do not implement is absent or has its neutral value.
  absl::Status CheckNeutral(std::string_view name, double neutral);
  absl::Status CheckNeutralFlag(std::string_view name, bool neutral);

  void Ignore(std::string_view name) { MarkRead(name); }

  // A key that nothing reads is refused if a known model computes with it. Any other is named in
  // one warning.
  absl::Status CheckOtherKeys(ModelConfig* config) const;

  absl::Status Refuse(std::string_view name, std::string_view value,
                      std::string_view expected) const;

 private:
  std::string MarkRead(std::string_view name) { return read_.emplace_back(Key(name)); }

  const GgufFile& file_;
  const std::string prefix_;
  std::vector<std::string> read_;
};

}  // namespace lockstep
