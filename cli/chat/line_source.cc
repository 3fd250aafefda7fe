#include "cli/chat/line_source.h"

#include <iostream>

namespace lockstep::cli {
namespace {

class PipeSource final : public LineSource {
 public:
  Result ReadLine(const std::string&, std::string& line) override {
    return std::getline(std::cin, line) ? Result::kLine : Result::kEnd;
  }
};

}  // namespace

std::unique_ptr<LineSource> MakePipeSource() { return std::make_unique<PipeSource>(); }

LineSource::Result ReadInput(LineSource& source, std::string& input) {
  input.clear();
  std::string line;
  for (std::string prompt = "> ";; prompt = ". ") {
    const LineSource::Result result = source.ReadLine(prompt, line);
    if (result == LineSource::Result::kInterrupted) return result;
    // If the input ends after a backslash, the lines before it count.
    if (result == LineSource::Result::kEnd) {
      return input.empty() ? result : LineSource::Result::kLine;
    }
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.back() = '\n';
    input += line;
    if (!goes_on) return LineSource::Result::kLine;
  }
}

}  // namespace lockstep::cli
