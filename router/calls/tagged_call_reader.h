#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "router/calls/call_reader.h"
#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/literal_scanner.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {

// Reads calls between tags: a name, and parameters between tags or one object (CallTags). Strings
// stream. Other values wait for their end, because their type decides how they begin.
class TaggedCallReader : public CallReader {
 public:
  TaggedCallReader(const OutputFormat& format, const ToolList& tools, bool in_call);

  ReadResult Push(char c, CallOutput& output) override;
  void Finish(CallOutput& output) override;

 private:
  enum class At { kBlock, kName, kId, kTag, kKey, kObject, kValue };

  ReadResult PushName(char c, CallOutput& output);
  ReadResult PushTag(char c, CallOutput& output);
  ReadResult OnTag(CallOutput& output);
  ReadResult PushKey(char c, CallOutput& output);
  ReadResult BeginValue(bool is_string, CallOutput& output);
  ReadResult PushValue(char c, CallOutput& output);
  void EndValue(CallOutput& output);
  void AddStringText(std::string_view text, CallOutput& output);
  ReadResult BeginObject(CallOutput& output);
  ReadResult PushObject(char c, CallOutput& output);
  ReadResult EndCall(CallOutput& output);

  void BeginName();
  void ExpectInBlock();
  void ExpectBehindName(bool may_have_id, bool may_have_name_end);
  void ExpectCallEnd();

  const OutputFormat& format_;
  const CallTags& tags_;
  const ToolList& tools_;
  At at_ = At::kBlock;
  TagChoice choice_;
  bool has_call_ = false;

  // The current call.
  std::string name_;
  bool has_fence_ = false;
  bool has_object_ = false;  // it is whole
  JsonTextScanner json_;
  LiteralScanner gemma_{LiteralScanner::Dialect::kGemma};
  std::vector<std::string> keys_;

  // The current parameter.
  MarkerScanner end_;  // of the key or the value
  std::string text_;   // the key, or a value that does not stream
  bool streams_ = false;
  bool is_typed_ = true;  // the schema decides about the type
  bool is_value_begin_ = false;
  bool holds_newline_ = false;
};

}  // namespace lockstep::router
