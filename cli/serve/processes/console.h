#pragma once

#include <string>
#include <string_view>

#include "cli/common/terminal.h"

namespace lockstep::cli {

// The output of `lockstep serve` on stdout: lines, and on a terminal one line of progress that
// replaces itself.
class Console {
 public:
  Console();

  void Line(std::string_view text);
  void Progress(std::string_view text);
  const Paint& paint() const { return paint_; }

 private:
  const bool is_terminal_;
  const Paint paint_;
  std::string progress_;  // the last one
  bool shows_progress_ = false;
};

}  // namespace lockstep::cli
