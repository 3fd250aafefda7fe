#include "router/serving/output/output_splitter.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {

OutputSplitter::OutputSplitter(std::shared_ptr<const OutputReading> reading)
    : reading_(std::move(reading)), parser_(reading_->format, reading_->tools, reading_->options) {}

void OutputSplitter::AddHiddenSpecial(std::string_view spelling) {
  specials_.push_back({.begin = num_bytes_in_, .end = num_bytes_in_, .spelling = spelling});
}

void OutputSplitter::AddText(std::string_view text, std::string_view special) {
  num_bytes_in_ += text.size();
  if (special.empty() || !text.ends_with(special)) return;
  specials_.push_back(
      {.begin = num_bytes_in_ - special.size(), .end = num_bytes_in_, .spelling = special});
}

void OutputSplitter::Take(std::string_view text, std::vector<OutputPart>& parts) {
  const std::string joined = std::exchange(waiting_, {}) + std::string(text);
  std::string_view rest = joined;
  const auto consume = [&](uint64_t end) {
    const auto size = static_cast<size_t>(end - num_bytes_out_);
    const std::string_view consumed = rest.substr(0, size);
    rest.remove_prefix(size);
    num_bytes_out_ = end;
    return consumed;
  };
  while (!specials_.empty() && specials_.front().end <= num_bytes_out_ + rest.size()) {
    const Special special = specials_.front();
    specials_.pop_front();
    PushPlain(consume(special.begin), parts);
    consume(special.end);
    parser_.Push(special.spelling, /*special=*/true, parts);
  }
  uint64_t end = num_bytes_out_ + rest.size();
  if (!specials_.empty()) end = std::min(end, specials_.front().begin);
  PushPlain(consume(end), parts);
  waiting_ = rest;
}

void OutputSplitter::Finish(std::vector<OutputPart>& parts, std::string_view end) {
  // A stop string has cut this spelling.
  PushPlain(std::exchange(waiting_, {}), parts);
  parser_.Finish(parts, end);
}

void OutputSplitter::PushPlain(std::string_view text, std::vector<OutputPart>& parts) {
  if (!text.empty()) parser_.Push(text, /*special=*/false, parts);
}

}  // namespace lockstep::router
