#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace lockstep {

// The fingerprint of a model's tokenizer. `path` is a folder or a GGUF file. Router and worker
// compare fingerprints, so that ids mean the same to both. 0 only if the model has no tokenizer (no
// tokenizer.json in the folder, no tokenizer.ggml.tokens in the file).
//
// Hashes everything that decides the ids of a text: vocabulary, merges, added tokens, normalizer,
// pre-tokenizer and the tokens around a text. Other files count only if they change the added
// tokens. The chat template and the decoder do not count. The same tokenizer has different
// fingerprints in the two formats. A file in neither format is an error that names it.
absl::StatusOr<uint64_t> LoadTokenizerFingerprint(const std::string& path);

}  // namespace lockstep
