#include "router/calls/call_reader.h"

#include "router/calls/json_call_reader.h"
#include "router/calls/python_call_reader.h"
#include "router/calls/scanners/marker_scanner.h"
#include "router/calls/tagged_call_reader.h"

namespace lockstep::router {
namespace {

std::unique_ptr<CallReader> MakeJsonReader(const OutputFormat& format, const ToolList& tools) {
  const bool needs_known_name = !format.whole_message.empty();
  return std::make_unique<JsonCallReader>(format.tags.block_end,
                                          needs_known_name ? &tools : nullptr);
}

// CallStyle::kJsonOrTagged.
class ChoosingReader : public CallReader {
 public:
  ChoosingReader(const OutputFormat& format, const ToolList& tools, bool in_call)
      : format_(format), tools_(tools), in_call_(in_call) {}

  ReadResult Push(char c, CallOutput& output) override {
    if (!chosen_) {
      if (IsJsonSpace(c)) return ReadResult::More();
      if (c == '[' || c == '{') {
        chosen_ = MakeJsonReader(format_, tools_);
      } else {
        chosen_ = std::make_unique<TaggedCallReader>(format_, tools_, in_call_);
      }
    }
    return chosen_->Push(c, output);
  }

  void Finish(CallOutput& output) override {
    if (chosen_) chosen_->Finish(output);
  }

 private:
  const OutputFormat& format_;
  const ToolList& tools_;
  const bool in_call_;
  std::unique_ptr<CallReader> chosen_;
};

}  // namespace

std::unique_ptr<CallReader> MakeCallReader(const OutputFormat& format, const ToolList& tools,
                                           bool in_call) {
  switch (format.style) {
    case CallStyle::kJson:
      return MakeJsonReader(format, tools);
    case CallStyle::kTagged:
      return std::make_unique<TaggedCallReader>(format, tools, in_call);
    case CallStyle::kJsonOrTagged:
      return std::make_unique<ChoosingReader>(format, tools, in_call);
    case CallStyle::kPython:
      return std::make_unique<PythonCallReader>(format.tags.block_end, tools);
    case CallStyle::kNone:
    case CallStyle::kHarmony:
      break;
  }
  return nullptr;
}

}  // namespace lockstep::router
