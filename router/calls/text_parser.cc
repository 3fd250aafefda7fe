#include "router/calls/text_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::router {
namespace {

constexpr size_t kMaxHeldSpace = 64;

}  // namespace

TextParser::TextParser(const OutputFormat& format, const ToolList& tools,
                       OutputParser::Options options, PartWriter& writer, CallOutput& call)
    : format_(format), tools_(tools), options_(options), writer_(writer), call_(call) {
  if (options_.begins_in_reasoning && options_.split_reasoning && !format_.think_open.empty()) {
    in_reasoning_ = true;
    trims_lines_ = true;
  }
  UpdateMarkers();
}

void TextParser::UpdateMarkers() {
  active_.clear();
  std::vector<std::string_view> texts;
  const auto add = [&](Marker marker, std::string_view text) {
    active_.push_back({marker, text});
    texts.push_back(text);
  };
  if (in_reasoning_) add(Marker::kThinkEnd, format_.think_end);
  // At the start of reasoning, the marker may come once more than the template had it.
  if (options_.split_reasoning && (is_fresh_ || (format_.thinks_anywhere && !in_reasoning_))) {
    add(Marker::kThinkOpen, format_.think_open);
  }
  if (options_.parse_calls && (!in_reasoning_ || format_.calls_in_reasoning)) {
    const CallTags& tags = format_.tags;
    add(Marker::kBlockOpen, tags.block_open);
    if (tags.block_open.empty() || format_.block_is_optional) {
      add(Marker::kCallOpen, tags.call_open);
    }
    if (is_fresh_ && !in_reasoning_) add(Marker::kWholeMessage, format_.whole_message);
  }
  if (!in_reasoning_) {
    add(Marker::kOwedBlockEnd, owed_block_end_);
    add(Marker::kOwedThinkEnd, owed_think_end_);
  }
  markers_are_stale_ = false;
  std::string released;
  scanner_.SetMarkers(std::move(texts), released);
  PlainText(released);
}

bool TextParser::in_text() const {
  if (in_reasoning_) return false;
  if (reader_) return call_.num_held() > 0;
  return !trims_lines_ || !space_.empty() || !scanner_.held().empty();
}

void TextParser::Push(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (!reader_ && scanner_.held().empty()) i += PushPlainRun(text.substr(i));
    if (i < text.size()) PushByte(text[i++]);
  }
}

// Writes the bytes at the start that are neither white space nor the start of a marker.
size_t TextParser::PushPlainRun(std::string_view text) {
  if (is_fresh_ || trims_lines_ || !space_.empty()) return 0;
  size_t end = scanner_.empty() ? text.size() : 0;
  while (end < text.size() && !IsJsonSpace(text[end]) && !scanner_.MayBegin(text[end])) ++end;
  Emit(text.substr(0, end));
  return end;
}

void TextParser::PushByte(char c) {
  if (reader_) {
    PushCallByte(c);
    return;
  }
  std::string released;
  const std::optional<size_t> found = scanner_.Push(c, released);
  if (!found) {
    PlainText(released);
    return;
  }
  const auto [marker, text] = active_[*found];
  PlainText(released);
  const bool needs_fresh =
      marker == Marker::kWholeMessage || (marker == Marker::kThinkOpen && !format_.thinks_anywhere);
  if (needs_fresh && !is_fresh_) {
    PlainText(text);
  } else {
    OnMarker(marker, text);
  }
}

void TextParser::OnMarker(Marker marker, std::string_view text) {
  switch (marker) {
    case Marker::kThinkOpen:
      space_.clear();
      return BeginStretch(/*in_reasoning=*/true);
    case Marker::kThinkEnd:
      space_.clear();
      return BeginStretch(/*in_reasoning=*/false);
    case Marker::kOwedBlockEnd:
    case Marker::kOwedThinkEnd:
      space_.clear();
      (marker == Marker::kOwedBlockEnd ? owed_block_end_ : owed_think_end_) = {};
      return BeginStretch(/*in_reasoning=*/false);
    default:
      return BeginReader(marker, text);
  }
}

void TextParser::BeginStretch(bool in_reasoning) {
  is_fresh_ = !in_reasoning;
  in_reasoning_ = in_reasoning;
  trims_lines_ = true;
  UpdateMarkers();
}

void TextParser::Emit(std::string_view text) {
  writer_.Text(in_reasoning_ ? OutputPart::Kind::kReasoning : OutputPart::Kind::kContent, text);
}

void TextParser::PlainText(std::string_view text) {
  for (const char c : text) Plain(c);
  if (markers_are_stale_) UpdateMarkers();
}

void TextParser::Plain(char c) {
  if (IsJsonSpace(c)) {
    if (trims_lines_ && c == '\n') {
      space_.clear();
      return;
    }
    space_.push_back(c);
    if (space_.size() < kMaxHeldSpace && (trims_lines_ || !scanner_.empty())) return;
    Emit(std::exchange(space_, {}));
    trims_lines_ = false;
    return;
  }
  if (!space_.empty()) Emit(std::exchange(space_, {}));
  Emit({&c, 1});
  trims_lines_ = false;
  if (std::exchange(is_fresh_, false)) markers_are_stale_ = true;
}

void TextParser::BeginReader(Marker marker, std::string_view text) {
  call_.Hold(std::exchange(space_, {}));
  owed_block_end_ = {};
  num_whole_before_ = call_.num_whole();
  reader_ = MakeCallReader(format_, tools_, /*in_call=*/marker == Marker::kCallOpen);
  if (marker != Marker::kWholeMessage) {
    call_.Hold(text);
    return;
  }
  for (const char c : text) PushCallByte(c);
}

void TextParser::PushCallByte(char c) {
  call_.Hold(c);
  const ReadResult result = reader_->Push(c, call_);
  switch (result.what) {
    case ReadResult::What::kMore:
      if (call_.num_held() > kMaxHeldBytes) LeaveReader(0);
      return;
    case ReadResult::What::kDone:
      call_.Drop();
      EndReader();
      return;
    case ReadResult::What::kLeave:
      call_.Unhold();
      LeaveReader(result.num_unread);
      PushByte(c);
      return;
  }
}

void TextParser::EndReader() {
  reader_.reset();
  if (in_reasoning_) owed_think_end_ = format_.think_end;
  BeginStretch(/*in_reasoning=*/false);
}

// The text that was read and not written is no call.
void TextParser::LeaveReader(size_t num_unread) {
  const std::string text = call_.TakeHeld();
  const size_t num_read = text.size() - std::min(num_unread, text.size());
  const bool is_broken = call_.is_open();
  const bool had_calls = is_broken || call_.num_whole() > num_whole_before_;
  if (is_broken) call_.Break();
  reader_.reset();
  if (had_calls) {
    const CallTags& tags = format_.tags;
    owed_block_end_ = tags.block_end.empty() ? tags.call_end : tags.block_end;
    if (in_reasoning_) owed_think_end_ = format_.think_end;
    BeginStretch(/*in_reasoning=*/false);
    if (is_broken) {
      trims_lines_ = is_fresh_ = false;
      UpdateMarkers();
    }
  }
  PlainText(std::string_view(text).substr(0, num_read));
  for (const char c : std::string_view(text).substr(num_read)) PushByte(c);
}

void TextParser::Finish(std::string_view /*end*/) {
  if (reader_) {
    reader_->Finish(call_);
    LeaveReader(0);
  }
  PlainText(scanner_.TakeHeld());
  if (!trims_lines_ && !space_.empty()) Emit(space_);
  space_.clear();
}

}  // namespace lockstep::router
