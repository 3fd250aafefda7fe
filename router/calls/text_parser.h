#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/call_reader.h"
#include "router/calls/output_parser.h"
#include "router/calls/part_writer.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {

// Splits valid UTF-8 into parts, for one family of formats.
class StreamParser {
 public:
  virtual ~StreamParser() = default;
  virtual void Push(std::string_view text) = 0;
  // `end` as in OutputParser::Finish.
  virtual void Finish(std::string_view end) = 0;
  virtual bool in_reasoning() const = 0;
  virtual bool in_text() const = 0;  // as OutputParser::in_text
};

// Parses text that has markers in it. Harmony frames whole messages, so it has its own parser.
//
// White space beside a marker is no content: up to 64 bytes before it, and the blank lines behind
// it. Between calls all white space is dropped.
class TextParser : public StreamParser {
 public:
  TextParser(const OutputFormat& format, const ToolList& tools, OutputParser::Options options,
             PartWriter& writer, CallOutput& call);

  void Push(std::string_view text) override;
  void Finish(std::string_view end) override;
  bool in_reasoning() const override { return in_reasoning_; }
  bool in_text() const override;

 private:
  enum class Marker {
    kThinkOpen,
    kThinkEnd,
    kBlockOpen,
    kCallOpen,
    kWholeMessage,
    kOwedBlockEnd,
    kOwedThinkEnd
  };

  struct Active {
    Marker marker;
    std::string_view text;
  };

  void PushByte(char c);
  void PushCallByte(char c);
  size_t PushPlainRun(std::string_view text);
  void Plain(char c);
  void PlainText(std::string_view text);
  void Emit(std::string_view text);
  void OnMarker(Marker marker, std::string_view text);
  void BeginStretch(bool in_reasoning);
  void BeginReader(Marker marker, std::string_view text);
  void EndReader();
  void LeaveReader(size_t num_unread);
  void UpdateMarkers();

  const OutputFormat& format_;
  const ToolList& tools_;
  const OutputParser::Options options_;
  PartWriter& writer_;
  CallOutput& call_;

  MarkerScanner scanner_;
  std::vector<Active> active_;  // the scanner's markers
  bool in_reasoning_ = false;
  bool is_fresh_ = true;  // no content yet in this stretch
  bool markers_are_stale_ = false;
  bool trims_lines_ = false;  // directly behind a marker
  std::string space_;         // white space that waits for what follows it
  // Ends of a block that was left early, and of reasoning that a call has ended. They are dropped.
  std::string_view owed_block_end_;
  std::string_view owed_think_end_;

  std::unique_ptr<CallReader> reader_;  // null: not in a call
  uint32_t num_whole_before_ = 0;       // calls, when the reader began
};

}  // namespace lockstep::router
