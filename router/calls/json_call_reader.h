#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "router/calls/call_reader.h"
#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {

// Reads JSON objects {"name": "f", "arguments": {..}}: one, several with or without a comma or a
// semicolon between them, or a list. "parameters" is another word for "arguments". Other members
// have no meaning. Arguments stream as soon as the name is known. Arguments in a string are taken
// out of it.
class JsonCallReader : public CallReader {
 public:
  // `known_names` not null: an object with another name is no call.
  JsonCallReader(std::string_view block_end, const ToolList* known_names);

  ReadResult Push(char c, CallOutput& output) override;
  void Finish(CallOutput& output) override;

 private:
  enum class At {
    kBeforeItem,
    kBehindList,
    kMember,
    kKey,
    kColon,
    kBeforeValue,
    kValue,
    kBehindValue
  };
  enum class Role { kName, kArguments, kOther };

  ReadResult PushBetween(char c, CallOutput& output);
  ReadResult PushBlockEnd(char c);
  ReadResult PushKey(char c);
  ReadResult BeginValue(char c, CallOutput& output);
  ReadResult PushValue(char c, CallOutput& output);
  bool EndValue(CallOutput& output);
  bool EndArguments(CallOutput& output);
  ReadResult PushBehindValue(char c, CallOutput& output);
  void BeginItem();

  const std::string_view block_end_;
  const ToolList* const known_names_;
  TagChoice tags_;
  At at_ = At::kBeforeItem;
  bool in_list_ = false;
  bool is_first_item_ = true;

  // The current object.
  JsonTextScanner scanner_;
  std::string text_;  // of the current key or value
  Role role_ = Role::kOther;
  char first_ = 0;  // of the current value
  std::optional<std::string> name_;
  bool has_arguments_ = false;   // the member came
  std::string early_arguments_;  // arguments that came before the name
};

}  // namespace lockstep::router
