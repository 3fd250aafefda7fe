#include "router/calls/tagged_call_reader.h"

#include <algorithm>
#include <utility>

#include "router/calls/scanners/schema_value.h"

namespace lockstep::router {
namespace {

// Places of tags in a TagChoice.
enum TagPlace : size_t {
  kBlockEndTag,
  kCallOpenTag,
  kNameEndTag,
  kIdOpenTag,
  kKeyOpenTag,
  kValueOpenTag,
  kStringOpenTag,
  kFenceOpenTag,
  kFenceEndTag,
  kBraceTag,
  kCallEndTag,
  kNumTags,
};

constexpr size_t kMaxParameters = 1000;  // of a call

bool IsNameByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("_-.:/").find(c) != std::string_view::npos ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::vector<std::string_view> NoTags() { return std::vector<std::string_view>(kNumTags); }

}  // namespace

TaggedCallReader::TaggedCallReader(const OutputFormat& format, const ToolList& tools, bool in_call)
    : format_(format), tags_(format.tags), tools_(tools) {
  if (in_call) {
    BeginName();
  } else {
    ExpectInBlock();
  }
}

ReadResult TaggedCallReader::Push(char c, CallOutput& output) {
  switch (at_) {
    case At::kName:
    case At::kId:
      return PushName(c, output);
    case At::kKey:
      return PushKey(c, output);
    case At::kObject:
      return PushObject(c, output);
    case At::kValue:
      return PushValue(c, output);
    default:
      return PushTag(c, output);
  }
}

void TaggedCallReader::BeginName() {
  name_.clear();
  text_.clear();
  has_fence_ = has_object_ = false;
  keys_.clear();
  at_ = At::kName;
}

void TaggedCallReader::ExpectInBlock() {
  auto tags = NoTags();
  tags[kCallOpenTag] = tags_.call_open;
  tags[kBlockEndTag] = tags_.block_end;
  choice_.Start(std::move(tags));
  at_ = At::kBlock;
}

void TaggedCallReader::ExpectBehindName(bool may_have_id, bool may_have_name_end) {
  auto tags = NoTags();
  if (may_have_id) tags[kIdOpenTag] = tags_.id_open;
  if (may_have_name_end) tags[kNameEndTag] = tags_.name_end;
  tags[kKeyOpenTag] = tags_.key_open;
  tags[kFenceOpenTag] = tags_.fence_open;
  if (format_.arguments != ArgumentStyle::kParameters) tags[kBraceTag] = "{";
  tags[kCallEndTag] = tags_.call_end;
  tags[kBlockEndTag] = tags_.block_end;
  choice_.Start(std::move(tags));
  at_ = At::kTag;
}

void TaggedCallReader::ExpectCallEnd() {
  auto tags = NoTags();
  if (has_fence_) tags[kFenceEndTag] = tags_.fence_end;
  tags[kCallEndTag] = tags_.call_end;
  tags[kBlockEndTag] = tags_.block_end;
  choice_.Start(std::move(tags));
  at_ = At::kTag;
}

ReadResult TaggedCallReader::PushName(char c, CallOutput& output) {
  if (text_.empty() && IsJsonSpace(c)) return ReadResult::More();
  if (IsNameByte(c)) {
    if (text_.size() == kMaxNameBytes) return ReadResult::Leave();
    text_.push_back(c);
    return ReadResult::More();
  }
  const bool is_name = at_ == At::kName;
  if (is_name) {
    std::string_view name = text_;
    if (name.starts_with(tags_.name_prefix)) name.remove_prefix(tags_.name_prefix.size());
    if (!tags_.name_cut.empty()) name = name.substr(0, name.find(tags_.name_cut));
    name_ = name;
    if (name_.empty()) return ReadResult::Leave();
  }
  ExpectBehindName(/*may_have_id=*/is_name, /*may_have_name_end=*/true);
  return PushTag(c, output);
}

ReadResult TaggedCallReader::PushTag(char c, CallOutput& output) {
  switch (choice_.Push(c)) {
    case TagChoice::State::kMore:
      return ReadResult::More();
    case TagChoice::State::kMismatch:
      return ReadResult::Leave(choice_.num_seen());
    case TagChoice::State::kMatched:
      return OnTag(output);
  }
  return ReadResult::Leave();
}

ReadResult TaggedCallReader::OnTag(CallOutput& output) {
  switch (choice_.index()) {
    case kCallOpenTag:
      BeginName();
      return ReadResult::More();
    case kIdOpenTag:
      text_.clear();
      at_ = At::kId;
      return ReadResult::More();
    case kNameEndTag:
      ExpectBehindName(false, false);
      return ReadResult::More();
    case kKeyOpenTag:
      if (keys_.size() == kMaxParameters) return ReadResult::Leave();
      text_.clear();
      end_ = MarkerScanner({tags_.key_end});
      at_ = At::kKey;
      return ReadResult::More();
    case kValueOpenTag:
      return BeginValue(/*is_string=*/false, output);
    case kStringOpenTag:
      return BeginValue(/*is_string=*/true, output);
    case kFenceOpenTag: {
      has_fence_ = true;
      auto tags = NoTags();
      tags[kBraceTag] = "{";
      choice_.Start(std::move(tags));
      return ReadResult::More();
    }
    case kBraceTag:
      return BeginObject(output);
    case kFenceEndTag:
      has_fence_ = false;
      ExpectCallEnd();
      return ReadResult::More();
    case kBlockEndTag:
      // A block without a call is none.
      if (at_ == At::kBlock) return has_call_ ? ReadResult::Done() : ReadResult::Leave();
      EndCall(output);
      return ReadResult::Done();
    default:
      return EndCall(output);
  }
}

ReadResult TaggedCallReader::PushKey(char c, CallOutput& output) {
  const bool ends = end_.Push(c, text_).has_value();
  if (text_.size() > kMaxNameBytes || text_.find_first_of("<>\n") != std::string::npos) {
    return ReadResult::Leave();
  }
  if (!ends) return ReadResult::More();
  if (text_.empty() || std::find(keys_.begin(), keys_.end(), text_) != keys_.end()) {
    return ReadResult::Leave();
  }
  keys_.push_back(text_);
  if (tags_.value_open.empty()) return BeginValue(/*is_string=*/false, output);
  auto tags = NoTags();
  tags[kValueOpenTag] = tags_.value_open;
  tags[kStringOpenTag] = tags_.string_open;
  choice_.Start(std::move(tags));
  at_ = At::kTag;
  return ReadResult::More();
}

ReadResult TaggedCallReader::BeginValue(bool is_string, CallOutput& output) {
  std::string json = keys_.size() == 1 ? "{\"" : ",\"";
  AppendJsonEscaped(keys_.back(), json);
  json += "\":";
  is_typed_ = tags_.string_open.empty();
  streams_ = is_string || (is_typed_ && IsOnlyString(tools_.TypesOf(name_, keys_.back())));
  if (streams_) json += "\"";
  if (!output.is_open()) output.Begin(name_);
  output.Arguments(json);
  text_.clear();
  end_ = MarkerScanner({tags_.value_end});
  is_value_begin_ = true;
  holds_newline_ = false;
  at_ = At::kValue;
  return ReadResult::More();
}

ReadResult TaggedCallReader::PushValue(char c, CallOutput& output) {
  std::string text;
  const bool ends = end_.Push(c, text).has_value();
  if (streams_) {
    AddStringText(text, output);
  } else {
    text_ += text;
  }
  if (ends) EndValue(output);
  return ReadResult::More();
}

// Leaves one newline at each end out, if the format has them.
void TaggedCallReader::AddStringText(std::string_view text, CallOutput& output) {
  std::string json;
  for (const char c : text) {
    const bool is_first = std::exchange(is_value_begin_, false);
    if (is_first && tags_.trims_values && c == '\n') continue;
    if (std::exchange(holds_newline_, false)) AppendJsonEscaped("\n", json);
    holds_newline_ = tags_.trims_values && c == '\n';
    if (!holds_newline_) AppendJsonEscaped({&c, 1}, json);
  }
  if (json.empty()) return;
  output.Arguments(json);
  if (holds_newline_) output.Hold('\n');
  output.Hold(end_.held());
}

void TaggedCallReader::EndValue(CallOutput& output) {
  if (streams_) {
    output.Arguments("\"");
  } else {
    std::string_view value = text_;
    if (tags_.trims_values) {
      if (value.starts_with('\n')) value.remove_prefix(1);
      if (value.ends_with('\n')) value.remove_suffix(1);
    }
    static const std::vector<std::string> kAnything;
    output.Arguments(
        ValueToJson(value, is_typed_ ? tools_.TypesOf(name_, keys_.back()) : kAnything));
  }
  ExpectBehindName(false, false);
}

ReadResult TaggedCallReader::BeginObject(CallOutput& output) {
  json_ = {};
  gemma_ = LiteralScanner(LiteralScanner::Dialect::kGemma);
  at_ = At::kObject;
  output.Begin(name_);
  return PushObject('{', output);
}

ReadResult TaggedCallReader::PushObject(char c, CallOutput& output) {
  std::string json;
  const ScanState state =
      format_.arguments == ArgumentStyle::kGemma ? gemma_.Push(c, json) : json_.Push(c, json);
  if (state == ScanState::kBad) return ReadResult::Leave();
  output.Arguments(json);
  if (state == ScanState::kMore) return ReadResult::More();
  has_object_ = true;
  if (tags_.call_end.empty()) return EndCall(output);
  ExpectCallEnd();
  return ReadResult::More();
}

ReadResult TaggedCallReader::EndCall(CallOutput& output) {
  if (!output.is_open()) output.Begin(name_);
  if (!has_object_) output.Arguments(keys_.empty() ? "{}" : "}");
  output.End();
  has_call_ = true;
  if (tags_.block_end.empty()) return ReadResult::Done();
  ExpectInBlock();
  return ReadResult::More();
}

void TaggedCallReader::Finish(CallOutput& output) {
  if (output.is_open() && has_object_) output.End();
}

}  // namespace lockstep::router
