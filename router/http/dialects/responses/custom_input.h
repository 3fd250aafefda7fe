#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::router {

// The plain text of a custom tool's input, out of the arguments of a call: the value of the one
// member kCustomInput, while it is being written. Arguments that begin otherwise are passed on as
// they are, so that nothing is lost. The joined output does not depend on how the arguments were
// cut. Used by one thread.
class CustomInput {
 public:
  // Returns the next piece of the text.
  std::string Push(std::string_view arguments);
  // The call ended. Returns the rest of the text.
  std::string Finish();
  // True: the text is whole.
  bool whole() const { return state_ == State::kDone; }

 private:
  enum class State {
    kBegin,  // `{ "input" : "` is not complete
    kText,   // inside the string
    kDone,   // behind it
    kAsIs,   // other arguments
  };

  void TakeBegin();
  // Decodes what is complete of `waiting_`.
  std::string TakeText();
  // Adds a unit of UTF-16.
  void AppendUnit(uint32_t unit, std::string& out);
  // The waiting half of a pair has no second half.
  void FlushUnit(std::string& out);

  State state_ = State::kBegin;
  std::string waiting_;          // a beginning, or a part of an escape
  uint32_t high_surrogate_ = 0;  // of a pair that is not complete; 0: none
};

}  // namespace lockstep::router
