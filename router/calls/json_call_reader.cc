#include "router/calls/json_call_reader.h"

#include <utility>

#include "router/text/unicode/white_space.h"

namespace lockstep::router {

JsonCallReader::JsonCallReader(std::string_view block_end, const ToolList* known_names)
    : block_end_(block_end), known_names_(known_names) {
  tags_.Start({block_end_});
}

ReadResult JsonCallReader::Push(char c, CallOutput& output) {
  switch (at_) {
    case At::kBeforeItem:
      return PushBetween(c, output);
    case At::kBehindList:
      return PushBlockEnd(c);
    case At::kKey:
      return PushKey(c);
    case At::kValue:
      return PushValue(c, output);
    case At::kBehindValue:
      return PushBehindValue(c, output);
    default:
      break;
  }
  if (IsJsonSpace(c)) return ReadResult::More();
  switch (at_) {
    case At::kMember:
      if (c == '"') {
        scanner_ = {};
        text_.clear();
        at_ = At::kKey;
        return PushKey(c);
      }
      return ReadResult::Leave();
    case At::kColon:
      if (c != ':') return ReadResult::Leave();
      at_ = At::kBeforeValue;
      return ReadResult::More();
    default:
      return BeginValue(c, output);
  }
}

// Before the first object, and between objects.
ReadResult JsonCallReader::PushBetween(char c, CallOutput& output) {
  if (tags_.num_seen() > 0) return PushBlockEnd(c);
  if (IsJsonSpace(c)) return ReadResult::More();
  if (c == '{') {
    BeginItem();
    return ReadResult::More();
  }
  if (is_first_item_) {
    if (c != '[' || in_list_) return ReadResult::Leave();
    in_list_ = true;
    return ReadResult::More();
  }
  if (c == ',' || (c == ';' && !in_list_)) {
    output.Drop();
    return ReadResult::More();
  }
  if (!in_list_) return PushBlockEnd(c);
  if (c != ']') return ReadResult::Leave();
  output.Drop();
  at_ = At::kBehindList;
  return block_end_.empty() ? ReadResult::Done() : ReadResult::More();
}

ReadResult JsonCallReader::PushBlockEnd(char c) {
  switch (tags_.Push(c)) {
    case TagChoice::State::kMore:
      return ReadResult::More();
    case TagChoice::State::kMatched:
      return ReadResult::Done();
    case TagChoice::State::kMismatch:
      break;
  }
  return ReadResult::Leave(tags_.num_seen());
}

void JsonCallReader::BeginItem() {
  name_.reset();
  has_arguments_ = false;
  early_arguments_.clear();
  at_ = At::kMember;
}

ReadResult JsonCallReader::PushKey(char c) {
  // A key is a string, which the scanner takes for a value.
  const ScanState state = scanner_.Push(c, text_);
  if (state == ScanState::kBad) return ReadResult::Leave();
  if (state == ScanState::kMore) return ReadResult::More();
  const std::string key = DecodeJsonString(text_);
  role_ = key == "name"                               ? Role::kName
          : key == "arguments" || key == "parameters" ? Role::kArguments
                                                      : Role::kOther;
  if (role_ == Role::kName && name_) return ReadResult::Leave();
  if (role_ == Role::kArguments && has_arguments_) return ReadResult::Leave();
  at_ = At::kColon;
  return ReadResult::More();
}

ReadResult JsonCallReader::BeginValue(char c, CallOutput& output) {
  scanner_ = {};
  text_.clear();
  first_ = c;
  at_ = At::kValue;
  if (role_ == Role::kName && c != '"') return ReadResult::Leave();
  if (role_ == Role::kArguments) {
    if (c != '{' && c != '"' && c != 'n') return ReadResult::Leave();
    has_arguments_ = true;
    if (c == '{' && name_) output.Begin(*name_);
  }
  return PushValue(c, output);
}

ReadResult JsonCallReader::PushValue(char c, CallOutput& output) {
  const ScanState state = scanner_.Push(c, text_);
  if (state == ScanState::kBad) return ReadResult::Leave();
  if (state != ScanState::kEndedBefore && role_ == Role::kArguments && output.is_open()) {
    output.Arguments(text_);
    text_.clear();
  }
  if (state == ScanState::kMore) {
    if (role_ == Role::kOther) text_.clear();
    return ReadResult::More();
  }
  if (!EndValue(output)) return ReadResult::Leave();
  at_ = At::kBehindValue;
  return state == ScanState::kEndedBefore ? PushBehindValue(c, output) : ReadResult::More();
}

// False: this is no call.
bool JsonCallReader::EndValue(CallOutput& output) {
  if (role_ == Role::kArguments) return output.is_open() || EndArguments(output);
  if (role_ == Role::kOther) return true;
  std::string name = DecodeJsonString(text_);
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  if (known_names_ && !known_names_->Has(name)) return false;
  name_ = std::move(name);
  if (has_arguments_) {
    output.Begin(*name_);
    output.Arguments(std::exchange(early_arguments_, {}));
  }
  return true;
}

// Arguments that did not stream: in a string, null, or before the name.
bool JsonCallReader::EndArguments(CallOutput& output) {
  std::string arguments = std::exchange(text_, {});
  if (first_ == '"') {
    const std::string inside = DecodeJsonString(arguments);
    const std::string_view trimmed = TrimStart(inside);
    arguments.clear();
    if (trimmed.empty()) {
      arguments = "{}";
    } else if (trimmed[0] != '{' || !ScanJson(trimmed, arguments)) {
      return false;
    }
  } else if (first_ == 'n') {
    arguments = "{}";
  }
  if (name_) {
    output.Begin(*name_);
    output.Arguments(arguments);
  } else {
    early_arguments_ = std::move(arguments);
  }
  return true;
}

ReadResult JsonCallReader::PushBehindValue(char c, CallOutput& output) {
  if (IsJsonSpace(c)) return ReadResult::More();
  if (c == ',') {
    at_ = At::kMember;
    return ReadResult::More();
  }
  if (c != '}' || !name_) return ReadResult::Leave();
  if (!output.is_open()) {
    output.Begin(*name_);
    output.Arguments("{}");
  }
  output.End();
  is_first_item_ = false;
  at_ = At::kBeforeItem;
  return ReadResult::More();
}

void JsonCallReader::Finish(CallOutput& output) {
  const bool is_in_arguments = at_ == At::kValue && role_ == Role::kArguments;
  if (output.is_open() && !is_in_arguments) output.End();
}

}  // namespace lockstep::router
