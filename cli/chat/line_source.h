#pragma once

#include <memory>
#include <string>

#include "cli/common/interrupt_signal.h"

namespace lockstep::cli {

// Where the lines of a chat come from.
class LineSource {
 public:
  enum class Result { kLine, kInterrupted, kEnd };

  virtual ~LineSource() = default;
  // The next line, without its end. kInterrupted: Ctrl-C; what was typed is dropped.
  virtual Result ReadLine(const std::string& prompt, std::string& line) = 0;
};

// Lines of stdin, without a prompt.
std::unique_ptr<LineSource> MakePipeSource();

// Lines of a terminal, edited with libedit. Keeps their history in the file `history_path`, which
// only its user may read. Empty: no file.
std::unique_ptr<LineSource> MakeEditSource(InterruptSignal* interrupt, std::string history_path);

// A whole input: a line that ends with a backslash continues in the next one.
LineSource::Result ReadInput(LineSource& source, std::string& input);

}  // namespace lockstep::cli
