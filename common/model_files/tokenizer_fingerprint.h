#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace lockstep {

// Of the tokenizer of a model, a folder or a *.gguf file: what router and worker compare, so that
// ids mean the same to both. 0 when the model has no tokenizer (no tokenizer.json in the folder, no
// tokenizer.ggml.tokens in the file), and then only.
//
// Hashes what the file says about which ids a text gets: vocabulary, merges, added tokens,
// normalizer, pre-tokenizer and the tokens around a text. Neither the chat template nor
// tokenizer_config.json nor the decoder is part of it. The same tokenizer has another fingerprint
// in each of the two formats, and a file of neither is an error that names it.
absl::StatusOr<uint64_t> LoadTokenizerFingerprint(const std::string& path);

}  // namespace lockstep
