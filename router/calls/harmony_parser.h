#pragma once

#include <string>
#include <string_view>

#include "router/calls/call_output.h"
#include "router/calls/output_format_table.h"
#include "router/calls/output_parser.h"
#include "router/calls/part_writer.h"
#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/marker_scanner.h"
#include "router/calls/text_parser.h"
#include "router/calls/tool_list.h"

namespace lockstep::router {

// OpenAI's harmony, of gpt-oss: messages, each with a header.
//   <|start|>assistant<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>BODY<|end|>
// The prompt ends with "<|start|>assistant". The body of channel "analysis" is reasoning. A body
// for a recipient "functions.NAME" is the arguments of a call. All others are content. Headers are
// dropped.
class HarmonyParser : public StreamParser {
 public:
  HarmonyParser(const OutputFormat& format, const ToolList& tools, OutputParser::Options options,
                PartWriter& writer, CallOutput& call);

  void Push(std::string_view text) override;
  void Finish(std::string_view end) override;
  bool in_reasoning() const override {
    return at_ == At::kBody && kind_ == OutputPart::Kind::kReasoning;
  }
  bool in_text() const override;

 private:
  enum class At { kHeader, kBody, kBeforeArguments, kArguments, kBetween };

  void PushByte(char c);
  void PushArguments(char c);
  void Plain(char c);
  void OnFrame(std::string_view frame);
  void OnFrameInHeader(std::string_view frame);
  void BeginBody();
  bool EndsMessage(std::string_view frame) const;
  void EmptyCall();
  void BeginContent(std::string_view text);
  std::string FunctionOf(std::string_view recipient) const;

  const OutputFormat& format_;
  const ToolList& tools_;
  const OutputParser::Options options_;
  PartWriter& writer_;
  CallOutput& call_;

  At at_ = At::kHeader;
  MarkerScanner scanner_;
  std::string header_;                                  // as written
  OutputPart::Kind kind_ = OutputPart::Kind::kContent;  // of the body
  bool is_fresh_ = false;                               // nothing yet in the body
  std::string function_;
  JsonTextScanner json_;
};

}  // namespace lockstep::router
