#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/ids.h"
#include "router/text/tokenizer/tokenizer.h"

// The data that tests/golden/tokenizers/generate.py writes. Tests run in the source folder.
namespace lockstep::router {

inline constexpr const char* kGoldenFolder = "tests/golden/tokenizers/";

std::string ReadGoldenFile(const std::string& name);

std::vector<std::string> ReadGoldenStrings();

struct GoldenCase {
  size_t string_index;
  Tokenizer::EncodeOptions options;
  bool refused;  // the vocabulary lacks a byte of the text
  std::vector<TokenId> ids;
};
std::vector<GoldenCase> ReadGoldenCases(const std::string& name);

// Encodes every case and compares ids; a difference is a test failure that shows the text. Returns
// the number of cases.
size_t ExpectGoldenIds(const Tokenizer& tokenizer, const std::vector<GoldenCase>& cases,
                       const std::vector<std::string>& strings);

// Text to ids to text for every string that the vocabulary can spell, special tokens as plain text.
// `normalized` says that the tokenizer changes text to NFC first.
void ExpectRoundTrip(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                     bool normalized);

}  // namespace lockstep::router
