#include "router/templates/renderer_frames.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

enum class JobKind : uint8_t { kLoad = 'L', kRender = 'R' };
constexpr char kOk = 'K';
constexpr char kError = 'E';
constexpr char kYes = '1';
constexpr char kNo = '0';

void PutLength(size_t length, char* out) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) out[i] = static_cast<char>(length >> (8 * i));
}

// Starts with room for the header; Finish fills it in.
class Writer {
 public:
  Writer() : frame_(kFrameHeaderBytes, '\0') {}

  void Byte(char byte) { frame_ += byte; }
  void Length(size_t length) {
    char bytes[kFrameHeaderBytes];
    PutLength(length, bytes);
    frame_.append(bytes, kFrameHeaderBytes);
  }
  void String(std::string_view text) {
    Length(text.size());
    frame_ += text;
  }
  void Reserve(size_t bytes) { frame_.reserve(bytes); }
  std::string Finish() {
    PutLength(frame_.size() - kFrameHeaderBytes, frame_.data());
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  char Byte() {
    if (rest_.empty()) {
      failed_ = true;
      return '\0';
    }
    const char byte = rest_.front();
    rest_.remove_prefix(1);
    return byte;
  }
  bool Flag() {
    const char byte = Byte();
    failed_ = failed_ || (byte != kYes && byte != kNo);
    return byte == kYes;
  }
  size_t Length() {
    if (rest_.size() < kFrameHeaderBytes) {
      failed_ = true;
      return 0;
    }
    const size_t length = PayloadBytes(rest_);
    rest_.remove_prefix(kFrameHeaderBytes);
    return length;
  }
  std::string String() {
    const size_t length = Length();
    failed_ = failed_ || length > rest_.size();
    if (failed_) return {};
    std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return text;
  }
  bool failed() const { return failed_; }
  // Everything was there, and nothing besides.
  bool done() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

// At most kMaxErrorBytes, without cutting a character in two.
std::string_view CutError(std::string_view text) {
  if (text.size() <= kMaxErrorBytes) return text;
  text = text.substr(0, kMaxErrorBytes);
  while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0xC0) == 0x80) text.remove_suffix(1);
  if (!text.empty() && static_cast<uint8_t>(text.back()) >= 0xC0) text.remove_suffix(1);
  return text;
}

absl::StatusOr<RendererJob> ParseRender(Reader& reader) {
  RenderJob job;
  job.options.add_generation_prompt = reader.Flag();
  job.options.extra_arguments_json = reader.String();
  const size_t num_messages = reader.Length();
  for (size_t i = 0; i < num_messages && !reader.failed(); ++i) {
    ChatMessage& message = job.messages.emplace_back();
    message.role = reader.String();
    message.content = reader.String();
    message.name = reader.String();
  }
  if (!reader.done()) return absl::InternalError("not a job of a renderer");
  return job;
}

}  // namespace

std::string LoadFrame(const TemplateSource& source) {
  Writer writer;
  writer.Byte(static_cast<char>(JobKind::kLoad));
  writer.String(source.text);
  writer.String(source.bos_token);
  writer.String(source.eos_token);
  return writer.Finish();
}

absl::StatusOr<std::string> RenderFrame(std::span<const ChatMessage> messages,
                                        const ChatTemplate::RenderOptions& options) {
  size_t bytes = 64 + options.extra_arguments_json.size();
  for (const ChatMessage& message : messages) {
    bytes += message.role.size() + message.content.size() + message.name.size() + 12;
  }
  if (bytes > kMaxJobBytes) {
    return InvalidArgument("a chat of {} bytes, expected at most {}", bytes, kMaxJobBytes);
  }
  Writer writer;
  writer.Reserve(bytes);
  writer.Byte(static_cast<char>(JobKind::kRender));
  writer.Byte(options.add_generation_prompt ? kYes : kNo);
  writer.String(options.extra_arguments_json);
  writer.Length(messages.size());
  for (const ChatMessage& message : messages) {
    writer.String(message.role);
    writer.String(message.content);
    writer.String(message.name);
  }
  return writer.Finish();
}

std::string AnswerFrame(const absl::StatusOr<std::string>& result) {
  Writer writer;
  writer.Byte(result.ok() ? kOk : kError);
  if (result.ok()) {
    writer.Reserve(result->size() + 16);
    writer.String(*result);
  } else {
    writer.String(CutError(Message(result.status())));
  }
  return writer.Finish();
}

size_t PayloadBytes(std::string_view header) {
  size_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= size_t{static_cast<uint8_t>(header[i])} << (8 * i);
  }
  return length;
}

absl::StatusOr<RendererJob> ParseJob(std::string_view payload) {
  Reader reader(payload);
  const char kind = reader.Byte();
  if (kind == static_cast<char>(JobKind::kRender)) return ParseRender(reader);
  TemplateSource source;
  source.text = reader.String();
  source.bos_token = reader.String();
  source.eos_token = reader.String();
  if (kind != static_cast<char>(JobKind::kLoad) || !reader.done()) {
    return absl::InternalError("not a job of a renderer");
  }
  return source;
}

absl::StatusOr<std::string> ParseAnswer(std::string_view payload) {
  Reader reader(payload);
  const char kind = reader.Byte();
  std::string text = reader.String();
  if (!reader.done() || (kind != kOk && kind != kError) || text.size() > kMaxRenderedBytes) {
    return absl::InternalError("not an answer of a renderer");
  }
  if (kind == kOk) return text;
  if (text.size() > kMaxErrorBytes || FindInvalidUtf8(text)) {
    text = "the chat template raised an error that is no text";
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace lockstep::router
