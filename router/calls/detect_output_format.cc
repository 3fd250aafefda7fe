#include <algorithm>
#include <string>
#include <string_view>

#include "router/calls/output_format_table.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {
namespace {

bool Fits(const OutputFormat& format, const Tokenizer& tokenizer) {
  const auto& templates = tokenizer.templates().templates;
  const auto is_in_template = [&](std::string_view text) {
    return text.empty() || std::any_of(templates.begin(), templates.end(), [&](const auto& entry) {
             return entry.second.find(text) != std::string::npos;
           });
  };
  const auto is_in_vocabulary = [&](std::string_view token) {
    return token.empty() || tokenizer.FindToken(token).has_value();
  };
  return std::ranges::all_of(format.in_template, is_in_template) &&
         std::ranges::all_of(format.in_vocabulary, is_in_vocabulary);
}

// Tokens that begin or end a turn of a chat. Reasoning does not reach across one.
constexpr std::string_view kTurnMarks[] = {"<|im_start|>",
                                           "<|im_end|>",
                                           "<|start_header_id|>",
                                           "<|eot_id|>",
                                           "<|header_start|>",
                                           "<|eot|>",
                                           "<|user|>",
                                           "<|assistant|>",
                                           "<|system|>",
                                           "<|observation|>",
                                           "<｜User｜>",
                                           "<｜Assistant｜>",
                                           "<|im_user|>",
                                           "<|turn>",
                                           "<turn|>",
                                           "<start_of_turn>",
                                           "<end_of_turn>",
                                           "[/INST]",
                                           "[INST]",
                                           "<|start|>",
                                           "<|end_of_text|>",
                                           "<｜end▁of▁sentence｜>",
                                           "]~b]",
                                           "[e~["};

}  // namespace

const OutputFormat* DetectOutputFormat(const Tokenizer& tokenizer) {
  for (const OutputFormat& format : OutputFormats()) {
    if (Fits(format, tokenizer)) return &format;
  }
  return nullptr;
}

// The last marker decides. A chat that goes on with the model's own message may have text behind
// it.
bool LeavesReasoningOpen(const OutputFormat& format, std::string_view tail) {
  // White space at the end of a marker is optional.
  const std::string_view marker = TrimJsonSpaceAtEnd(format.think_open);
  if (marker.empty()) return false;
  const size_t open = tail.rfind(marker);
  if (open == std::string_view::npos) return false;
  const std::string_view inside = tail.substr(open + marker.size());
  if (inside.find(format.think_end) != std::string_view::npos) return false;
  return std::ranges::none_of(kTurnMarks, [&](std::string_view mark) {
    return inside.find(mark) != std::string_view::npos;
  });
}

bool HasEndedReasoning(const OutputFormat& format, std::string_view tail) {
  return HasReasoning(format) && TrimJsonSpaceAtEnd(tail).ends_with(format.think_end);
}

}  // namespace lockstep::router
