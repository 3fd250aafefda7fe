#include "router/calls/harmony_parser.h"

#include <optional>
#include <utility>

namespace lockstep::router {
namespace {

constexpr size_t kMaxHeaderBytes = 1024;

// Places in OutputFormat::frame.
enum Frame : size_t { kStart, kChannel, kConstrain, kMessage, kEndOfMessage, kCall, kReturn };

// The word behind `mark`, up to white space or a token.
std::string_view WordBehind(std::string_view header, std::string_view mark) {
  const size_t at = header.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view word = header.substr(at + mark.size());
  return word.substr(0, word.find_first_of(" \t\r\n<"));
}

// Whether a header without a token at its start is one: "to=functions.f".
bool MayBeHeader(std::string_view header) {
  constexpr std::string_view kRecipient = "to=";
  const size_t begin = header.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return true;
  header.remove_prefix(begin);
  return header[0] == '<' || header.starts_with(kRecipient) || kRecipient.starts_with(header);
}

}  // namespace

HarmonyParser::HarmonyParser(const OutputFormat& format, const ToolList& tools,
                             OutputParser::Options options, PartWriter& writer, CallOutput& call)
    : format_(format),
      tools_(tools),
      options_(options),
      writer_(writer),
      call_(call),
      scanner_({format.frame.begin(), format.frame.end()}) {
  if (options_.begins_in_reasoning) {
    at_ = At::kBody;
    kind_ = options_.split_reasoning ? OutputPart::Kind::kReasoning : OutputPart::Kind::kContent;
  }
}

bool HarmonyParser::in_text() const {
  switch (at_) {
    case At::kHeader:
      return !header_.starts_with('<');
    case At::kBody:
      return !in_reasoning() && !(is_fresh_ && scanner_.held().empty());
    case At::kBetween:
      return !scanner_.held().empty();
    default:
      return call_.num_held() > 0;
  }
}

void HarmonyParser::Push(std::string_view text) {
  for (const char c : text) PushByte(c);
}

void HarmonyParser::PushByte(char c) {
  if (at_ == At::kArguments) {
    PushArguments(c);
    return;
  }
  std::string released;
  const std::optional<size_t> frame = scanner_.Push(c, released);
  for (const char plain : released) Plain(plain);
  if (frame) OnFrame(format_.frame[*frame]);
}

void HarmonyParser::Plain(char c) {
  switch (at_) {
    case At::kHeader:
      header_.push_back(c);
      if (header_.size() > kMaxHeaderBytes || !MayBeHeader(header_)) {
        BeginContent(std::exchange(header_, {}));
      }
      return;
    case At::kBetween:
      if (!IsJsonSpace(c)) BeginContent({&c, 1});
      return;
    case At::kBeforeArguments:
      call_.Hold(c);
      if (IsJsonSpace(c)) return;
      if (c != '{') {
        BeginContent(call_.TakeHeld());
        return;
      }
      call_.Unhold();
      call_.Begin(function_);
      json_ = {};
      at_ = At::kArguments;
      PushArguments(c);
      return;
    default:
      is_fresh_ = false;
      writer_.Text(kind_, {&c, 1});
  }
}

void HarmonyParser::PushArguments(char c) {
  call_.Hold(c);
  std::string json;
  switch (json_.Push(c, json)) {
    case ScanState::kMore:
      call_.Arguments(json);
      return;
    case ScanState::kDone:
      call_.Arguments(json);
      call_.End();
      at_ = At::kBetween;
      return;
    default:
      break;
  }
  call_.Unhold();
  const std::string held = call_.TakeHeld();
  call_.Break();
  BeginContent(held);
  PushByte(c);
}

void HarmonyParser::EmptyCall() {
  call_.Begin(function_);
  call_.Arguments("{}");
  call_.End();
}

void HarmonyParser::BeginContent(std::string_view text) {
  kind_ = OutputPart::Kind::kContent;
  at_ = At::kBody;
  is_fresh_ = text.empty();
  writer_.Text(kind_, text);
}

bool HarmonyParser::EndsMessage(std::string_view frame) const {
  return frame == format_.frame[kEndOfMessage] || frame == format_.frame[kCall] ||
         frame == format_.frame[kReturn];
}

void HarmonyParser::OnFrame(std::string_view frame) {
  const bool opens = frame == format_.frame[kStart] || frame == format_.frame[kChannel];
  const bool ends = EndsMessage(frame);
  if (at_ == At::kHeader) {
    OnFrameInHeader(frame);
    return;
  }
  if (at_ == At::kBeforeArguments) {
    if (ends) {
      EmptyCall();
    } else {
      BeginContent(call_.TakeHeld());
    }
  }
  if (opens) {
    header_ = frame;
    at_ = At::kHeader;
  } else if (ends) {
    at_ = At::kBetween;
  } else if (at_ == At::kBody) {
    is_fresh_ = false;
    writer_.Text(kind_, frame);
  }
}

void HarmonyParser::OnFrameInHeader(std::string_view frame) {
  if (frame == format_.frame[kMessage]) {
    BeginBody();
    return;
  }
  const bool goes_on = frame == format_.frame[kChannel] || frame == format_.frame[kConstrain];
  if (goes_on && header_.size() <= kMaxHeaderBytes) {
    header_ += frame;
    return;
  }
  // A header without a body. A second token for the start of a message is no loss.
  std::string header = std::exchange(header_, {});
  if (frame == format_.frame[kStart]) {
    if (!header.empty()) writer_.Text(OutputPart::Kind::kContent, header);
    header_ = frame;
    return;
  }
  BeginContent(header);
  at_ = At::kBetween;
}

void HarmonyParser::BeginBody() {
  std::string header = std::exchange(header_, {});
  const std::string_view channel = WordBehind(header, format_.frame[kChannel]);
  function_ = options_.parse_calls ? FunctionOf(WordBehind(header, "to=")) : "";
  if (!function_.empty()) {
    call_.Hold(header);
    call_.Hold(format_.frame[kMessage]);
    at_ = At::kBeforeArguments;
    return;
  }
  kind_ = channel == "analysis" && options_.split_reasoning ? OutputPart::Kind::kReasoning
                                                            : OutputPart::Kind::kContent;
  at_ = At::kBody;
  is_fresh_ = true;
}

// Empty: the recipient is no function. Tools that are built into the model are none.
std::string HarmonyParser::FunctionOf(std::string_view recipient) const {
  const std::string_view prefix = format_.tags.name_prefix;
  if (recipient.size() > kMaxNameBytes) return "";
  if (recipient.starts_with(prefix)) return std::string(recipient.substr(prefix.size()));
  return tools_.Has(recipient) ? std::string(recipient) : "";
}

void HarmonyParser::Finish(std::string_view end) {
  const std::string waiting = scanner_.TakeHeld();
  for (const char c : waiting) Plain(c);
  // A header that was cut off is no content, but text without a token at its start may be.
  if (at_ == At::kHeader && !header_.starts_with('<')) BeginContent(header_);
  if (at_ == At::kArguments) call_.Break();
  // The model ends a call with a token that ends the sequence, too.
  if (at_ == At::kBeforeArguments && EndsMessage(end)) EmptyCall();
  const std::string held = call_.TakeHeld();
  if (!held.empty()) BeginContent(held);
}

}  // namespace lockstep::router
