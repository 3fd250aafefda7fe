#include "tests/router/text/golden_corpus.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "router/text/unicode/nfc.h"

namespace lockstep::router {
namespace {

constexpr uint8_t kAddSpecial = 1;
constexpr uint8_t kParseSpecial = 2;
constexpr uint8_t kRefused = 4;

class GoldenReader {
 public:
  explicit GoldenReader(std::string_view data) : rest_(data) {}

  bool done() const { return rest_.empty(); }
  uint8_t Byte() {
    EXPECT_FALSE(rest_.empty()) << "golden file ends early";
    if (rest_.empty()) return 0;
    const uint8_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint32_t Varint() {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint32_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::string Bytes(size_t count) {
    const std::string bytes(rest_.substr(0, count));
    EXPECT_EQ(bytes.size(), count) << "golden file ends early";
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

std::string Quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text.substr(0, 200)) {
    const uint8_t byte = static_cast<uint8_t>(c);
    quoted += byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return '"' + quoted + '"';
}

}  // namespace

std::string ReadGoldenFile(const std::string& name) {
  const std::string path = kGoldenFolder + name;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  EXPECT_TRUE(file.ok()) << path << ": " << file.status();
  if (!file.ok()) return {};
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

std::vector<std::string> ReadGoldenStrings() {
  const std::string data = ReadGoldenFile("strings.bin");
  std::vector<std::string> strings;
  for (GoldenReader reader(data); !reader.done();) strings.push_back(reader.Bytes(reader.Varint()));
  return strings;
}

std::vector<GoldenCase> ReadGoldenCases(const std::string& name) {
  const std::string data = ReadGoldenFile(name);
  std::vector<GoldenCase> cases;
  for (GoldenReader reader(data); !reader.done();) {
    GoldenCase& golden = cases.emplace_back();
    golden.string_index = reader.Varint();
    const uint8_t flags = reader.Byte();
    golden.options = {.add_special_tokens = (flags & kAddSpecial) != 0,
                      .parse_special_tokens = (flags & kParseSpecial) != 0};
    golden.refused = (flags & kRefused) != 0;
    if (golden.refused) continue;
    golden.ids.resize(reader.Varint());
    for (TokenId& id : golden.ids) id = reader.Varint();
  }
  return cases;
}

size_t ExpectGoldenIds(const Tokenizer& tokenizer, const std::vector<GoldenCase>& cases,
                       const std::vector<std::string>& strings) {
  size_t num_wrong = 0;
  for (const GoldenCase& golden : cases) {
    const std::string& text = strings.at(golden.string_index);
    const absl::StatusOr<std::vector<TokenId>> ids = tokenizer.Encode(text, golden.options);
    const bool is_right = golden.refused ? ids.status().code() == absl::StatusCode::kInvalidArgument
                                         : ids.ok() && *ids == golden.ids;
    if (is_right || ++num_wrong > 10) continue;
    ADD_FAILURE() << Quoted(text) << " parse_special_tokens " << golden.options.parse_special_tokens
                  << "\n  expected "
                  << (golden.refused ? "an error" : fmt::format("{}", fmt::join(golden.ids, " ")))
                  << "\n  actual   "
                  << (ids.ok() ? fmt::format("{}", fmt::join(*ids, " ")) : Message(ids.status()));
  }
  EXPECT_EQ(num_wrong, 0u) << "of " << cases.size() << " cases";
  return cases.size();
}

void ExpectRoundTrip(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                     bool normalized) {
  size_t num_encoded = 0;
  for (const std::string& text : strings) {
    const auto ids = tokenizer.Encode(text, {.add_special_tokens = false});
    if (!ids.ok()) continue;
    ++num_encoded;
    std::string storage;
    const auto expected = normalized ? NormalizeNfc(text, storage) : std::string_view(text);
    ASSERT_TRUE(expected.ok());
    const std::string decoded = tokenizer.Decode(*ids, /*skip_special_tokens=*/false);
    ASSERT_EQ(Quoted(decoded), Quoted(*expected));
  }
  EXPECT_GT(num_encoded, strings.size() * 9 / 10);
}

}  // namespace lockstep::router
