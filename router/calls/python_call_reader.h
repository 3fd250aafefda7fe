#pragma once

#include <string>
#include <string_view>

#include "router/calls/call_reader.h"
#include "router/calls/scanners/literal_scanner.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {

// Reads a list of calls in Python's syntax: [f(a=1, b="x"), g()]. Only known names are calls.
class PythonCallReader : public CallReader {
 public:
  PythonCallReader(std::string_view block_end, const ToolList& tools)
      : block_end_(block_end), tools_(tools) {}

  ReadResult Push(char c, CallOutput& output) override;
  // A call that has not ended is never whole.
  void Finish(CallOutput&) override {}

 private:
  enum class At { kStart, kName, kBehindName, kArguments, kBehindCall, kEnd };

  ReadResult PushName(char c, CallOutput& output);
  ReadResult PushArguments(char c, CallOutput& output);
  ReadResult PushBehindCall(char c, CallOutput& output);

  const std::string_view block_end_;
  const ToolList& tools_;
  At at_ = At::kStart;
  bool has_call_ = false;
  std::string name_;
  LiteralScanner scanner_{LiteralScanner::Dialect::kPython};
  std::string arguments_;  // not yet written
  TagChoice choice_;       // block_end_
};

}  // namespace lockstep::router
