#include "common/constraints/engine_frames.h"

#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "common/caged/frame_io.h"
#include "common/status.h"
#include "common/utf8.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "masks are sent as words");

enum class EngineJob : char {
  kVocabulary = 'V',
  kCheck = 'C',
  kBegin = 'B',
  kMask = 'M',
  kRelease = 'R',
};

FrameWriter StartJob(EngineJob job, size_t num_bytes) {
  FrameWriter writer(num_bytes + 64);
  writer.Byte(static_cast<char>(job));
  return writer;
}

void PutIds(std::span<const TokenId> ids, FrameWriter& writer) {
  writer.Length(ids.size());
  for (const TokenId id : ids) writer.Length(id);
}

// Valid UTF-8 on one line.
std::string Printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t size = CharacterBytes(text, i);
    const bool plain = text[i] >= ' ' && text[i] <= '~';
    out += size > 0 ? text.substr(i, size) : plain ? text.substr(i, 1) : "?";
    i += size > 0 ? size : 1;
  }
  return out;
}

}  // namespace

std::string VocabularyFrame(std::span<const VocabularyToken> vocabulary) {
  std::vector<TokenId> special;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary[id].special) special.push_back(id);
  }
  FrameWriter writer = StartJob(EngineJob::kVocabulary, 12 * vocabulary.size());
  PutIds(special, writer);
  writer.Length(vocabulary.size());
  for (const VocabularyToken& token : vocabulary) writer.String(token.bytes);
  return writer.Finish();
}

std::string CheckFrame(const Constraint& constraint) {
  FrameWriter writer = StartJob(EngineJob::kCheck, constraint.text.size());
  writer.Byte(static_cast<char>(constraint.kind));
  writer.String(constraint.text);
  return writer.Finish();
}

std::string BeginFrame(uint32_t slot, const Constraint& constraint,
                       std::span<const TokenId> end_ids, std::span<const TokenId> tokens) {
  FrameWriter writer =
      StartJob(EngineJob::kBegin, constraint.text.size() + 4 * (end_ids.size() + tokens.size()));
  writer.Length(slot);
  writer.Byte(static_cast<char>(constraint.kind));
  writer.String(constraint.text);
  PutIds(end_ids, writer);
  PutIds(tokens, writer);
  return writer.Finish();
}

std::string MaskFrame(uint32_t slot, std::span<const TokenId> tokens) {
  FrameWriter writer = StartJob(EngineJob::kMask, 4 * tokens.size());
  writer.Length(slot);
  PutIds(tokens, writer);
  return writer.Finish();
}

std::string ReleaseFrame(uint32_t slot) {
  FrameWriter writer = StartJob(EngineJob::kRelease, 0);
  writer.Length(slot);
  return writer.Finish();
}

size_t MaxEngineAnswerBytes(uint32_t vocab_size) {
  constexpr size_t kOverhead = 64;
  return kOverhead + kMaxCagedErrorBytes + size_t{vocab_size} / 8;
}

absl::StatusOr<std::string_view> ParseEngineAnswer(std::string_view payload) {
  const std::optional<CagedAnswer> answer = ParseCagedAnswer(payload);
  if (!answer || (answer->failed && answer->text.size() > kMaxCagedErrorBytes)) {
    return absl::InternalError("not an answer of a constraint engine");
  }
  if (!answer->failed) return answer->text;
  return absl::InvalidArgumentError(Printable(answer->text));
}

absl::Status ParseMask(std::string_view text, uint32_t vocab_size, TokenMask& mask) {
  const size_t num_words = (size_t{vocab_size} + 31) / 32;
  if (text.size() != 1 + 4 * num_words) {
    return Internal("a mask of {} bytes, expected {}", text.size(), 1 + 4 * num_words);
  }
  mask.ends_only = text[0] != 0;
  mask.words.resize(num_words);
  std::memcpy(mask.words.data(), text.data() + 1, 4 * num_words);
  // The bits behind the vocabulary.
  if (vocab_size % 32 != 0) mask.words.back() &= (1u << vocab_size % 32) - 1;
  return absl::OkStatus();
}

}  // namespace lockstep
