#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/output_parser.h"
#include "router/serving/output/output_reading.h"

namespace lockstep::router {

// Splits the text of one sample into parts, after stop strings were cut from it.
//
// Text may wait for long in the stop matcher, and then come out in pieces of its own. So the object
// remembers where special tokens were in the text that went in. A text that only spells a marker is
// thus told apart from the marker. Special tokens that the client does not see have no text of
// their own there: no stop string can match them. Used by one thread at a time.
class OutputSplitter {
 public:
  explicit OutputSplitter(std::shared_ptr<const OutputReading> reading);

  // --- before the text goes into the stop matcher ---
  // A special token without text. `spelling` must outlive the object.
  void AddHiddenSpecial(std::string_view spelling);
  // The next text. `special`: its end is the spelling of a special token; empty: there is none.
  void AddText(std::string_view text, std::string_view special);

  // --- after it ---
  // The next text that came out of the matcher. Appends to `parts`.
  void Take(std::string_view text, std::vector<OutputPart>& parts);
  // No more text comes out. `end` as in OutputParser::Finish.
  void Finish(std::vector<OutputPart>& parts, std::string_view end = "");

  const OutputReading& reading() const { return *reading_; }
  const OutputParser& parser() const { return parser_; }

 private:
  struct Special {
    uint64_t begin;  // in bytes of text
    uint64_t end;    // begin: it has no text
    std::string_view spelling;
  };

  void PushPlain(std::string_view text, std::vector<OutputPart>& parts);

  const std::shared_ptr<const OutputReading> reading_;
  OutputParser parser_;
  std::deque<Special> specials_;  // in order; those whose text did not come out yet
  uint64_t num_bytes_in_ = 0;
  uint64_t num_bytes_out_ = 0;  // that the parser has
  std::string waiting_;         // the beginning of a spelling
};

}  // namespace lockstep::router
