#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/output_format.h"
#include "router/calls/tool_list.h"

namespace lockstep::router {

// A stretch of what a model said. All stretches of a kind, joined, are the whole text of that kind.
struct OutputPart {
  enum class Kind {
    kContent,
    kReasoning,
    kCallBegin,      // `text` is the name of the function
    kCallArguments,  // `text` is the next piece of a JSON object
    kCallEnd,        // the arguments, joined, are one JSON object
    kCallBroken,     // the arguments never became one; later text is content again
  };

  Kind kind = Kind::kContent;
  std::string text;

  bool operator==(const OutputPart&) const = default;
};

// Splits the output of one sequence into content, reasoning and calls of tools, while it is being
// written. The parts depend on the output alone, and not on how it was cut into pieces: joined
// parts are equal for all cuts. Only text that may still become a marker waits. Nothing of the
// output is lost: what begins like a call and is none comes out as content. Owned and used by one
// thread at a time.
class OutputParser {
 public:
  struct Options {
    bool parse_calls = false;
    bool split_reasoning = false;
    // The prompt ends inside a stretch of reasoning that the template began.
    bool begins_in_reasoning = false;
    // Special tokens that are no markers stay in the content.
    bool keep_special_tokens = false;
  };

  // `format` and `tools` must outlive the object.
  OutputParser(const OutputFormat& format, const ToolList& tools, Options options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // Appends to `parts`. `text` is the next piece of the output. `special`: it is the spelling of
  // one special token, and else it holds none.
  void Push(std::string_view text, bool special, std::vector<OutputPart>& parts);
  // The sequence ended. Appends the text that waited. `end`: the spelling of the token that ended
  // it and was not pushed; empty: none did. It may be the marker of a call's end.
  void Finish(std::vector<OutputPart>& parts, std::string_view end = "");

  uint32_t num_whole_calls() const;
  uint32_t num_broken_calls() const;
  // The output, up to here, ends inside reasoning.
  bool in_reasoning() const;
  // It ends inside content, or in what may yet become content. Without parts, a token then belongs
  // to the content if the next one does. Headers and calls count as content only while nothing of
  // them is certain. If such a call turns out to be text, its tokens have been counted apart.
  bool in_text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
