#pragma once

#include <cstddef>
#include <memory>

#include "router/calls/call_output.h"
#include "router/calls/output_format_table.h"
#include "router/calls/tool_list.h"

namespace lockstep::router {

struct ReadResult {
  enum class What {
    kMore,   // the byte belongs to the calls
    kDone,   // the same, and it ends them
    kLeave,  // the byte does not belong to a call; nothing was written for it
  };
  What what = What::kMore;
  // kLeave: so many bytes before this one do not belong to a call either.
  size_t num_unread = 0;

  static ReadResult More() { return {What::kMore, 0}; }
  static ReadResult Done() { return {What::kDone, 0}; }
  static ReadResult Leave(size_t num_unread = 0) { return {What::kLeave, num_unread}; }
};

// Reads calls of one syntax, byte by byte, from the end of the marker on that opens them. It reads
// valid UTF-8. The caller adds each byte to `output` first.
class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual ReadResult Push(char c, CallOutput& output) = 0;
  // The output ended. Ends the current call if it is whole except for tags behind it.
  virtual void Finish(CallOutput& output) = 0;
};

// `in_call`: the marker opened a call, and not a block of calls. `format` and `tools` must outlive
// the reader.
std::unique_ptr<CallReader> MakeCallReader(const OutputFormat& format, const ToolList& tools,
                                           bool in_call);

}  // namespace lockstep::router
