#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model_files/gguf.h"
#include "common/model_files/gguf_cursor.h"

// Internal to the reader of GGUF files. Turns the bytes of a file into checked entries, which view
// into the bytes.
namespace lockstep {

using GgufEntry = std::pair<std::string_view, GgufValue>;

struct GgufContents {
  std::vector<GgufEntry> metadata;  // sorted by key, no key twice
  std::vector<GgufTensor> tensors;  // sorted by name, no name twice, data aligned, no overlaps
};

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> bytes, const std::string& name);

// The parts of ParseGguf, in the order of the file. Each moves the cursor past its part.
absl::StatusOr<std::vector<GgufEntry>> ParseGgufMetadata(GgufCursor& cursor, uint64_t num_entries);
// The tensors' data begins at the next multiple of `alignment`.
absl::StatusOr<std::vector<GgufTensor>> ParseGgufTensors(GgufCursor& cursor, uint64_t num_tensors,
                                                         uint64_t alignment);

}  // namespace lockstep
