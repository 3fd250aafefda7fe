#include "router/calls/output_parser.h"

#include "router/calls/call_output.h"
#include "router/calls/harmony_parser.h"
#include "router/calls/output_format_table.h"
#include "router/calls/part_writer.h"
#include "router/calls/text_parser.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {

class OutputParser::Impl {
 public:
  Impl(const OutputFormat& format, const ToolList& tools, Options options)
      : format_(format), keeps_special_tokens_(options.keep_special_tokens), call_(writer_) {
    if (format.style == CallStyle::kNone) options.parse_calls = false;
    if (format.style == CallStyle::kHarmony) {
      parser_ = std::make_unique<HarmonyParser>(format, tools, options, writer_, call_);
    } else {
      parser_ = std::make_unique<TextParser>(format, tools, options, writer_, call_);
    }
  }

  void Push(std::string_view text, bool special, std::vector<OutputPart>& parts) {
    if (special && !keeps_special_tokens_ && !IsMarker(format_, text)) return;
    writer_.SetTarget(parts);
    std::string valid;
    if (special) FlushLossyUtf8(pending_bytes_, valid);
    AppendLossyUtf8(text, pending_bytes_, valid);
    parser_->Push(valid);
  }

  void Finish(std::vector<OutputPart>& parts, std::string_view end) {
    writer_.SetTarget(parts);
    std::string valid;
    FlushLossyUtf8(pending_bytes_, valid);
    parser_->Push(valid);
    parser_->Finish(end);
  }

  const CallOutput& call() const { return call_; }
  bool in_reasoning() const { return parser_->in_reasoning(); }
  bool in_text() const { return parser_->in_text(); }

 private:
  const OutputFormat& format_;
  const bool keeps_special_tokens_;
  PartWriter writer_;
  CallOutput call_;
  std::unique_ptr<StreamParser> parser_;
  std::string pending_bytes_;  // of an unfinished character
};

OutputParser::OutputParser(const OutputFormat& format, const ToolList& tools, Options options)
    : impl_(std::make_unique<Impl>(format, tools, options)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::Push(std::string_view text, bool special, std::vector<OutputPart>& parts) {
  impl_->Push(text, special, parts);
}

void OutputParser::Finish(std::vector<OutputPart>& parts, std::string_view end) {
  impl_->Finish(parts, end);
}

uint32_t OutputParser::num_whole_calls() const { return impl_->call().num_whole(); }
uint32_t OutputParser::num_broken_calls() const { return impl_->call().num_broken(); }
bool OutputParser::in_reasoning() const { return impl_->in_reasoning(); }
bool OutputParser::in_text() const { return impl_->in_text(); }

}  // namespace lockstep::router
