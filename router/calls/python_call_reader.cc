#include "router/calls/python_call_reader.h"

namespace lockstep::router {
namespace {

bool IsFunctionNameByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

ReadResult PythonCallReader::Push(char c, CallOutput& output) {
  if (at_ == At::kArguments) return PushArguments(c, output);
  if (at_ == At::kName) return PushName(c, output);
  if (at_ == At::kEnd) {
    const TagChoice::State state = choice_.Push(c);
    if (state == TagChoice::State::kMismatch) return ReadResult::Leave(choice_.num_seen());
    return state == TagChoice::State::kMatched ? ReadResult::Done() : ReadResult::More();
  }
  if (IsJsonSpace(c)) return ReadResult::More();
  if (at_ == At::kBehindCall) return PushBehindCall(c, output);
  if (at_ == At::kBehindName) return PushName(c, output);
  if (c != '[') return ReadResult::Leave();
  at_ = At::kName;
  return ReadResult::More();
}

ReadResult PythonCallReader::PushName(char c, CallOutput& output) {
  if (at_ == At::kName && IsFunctionNameByte(c)) {
    if (name_.size() == kMaxNameBytes) return ReadResult::Leave();
    name_.push_back(c);
    return ReadResult::More();
  }
  if (IsJsonSpace(c)) {
    if (!name_.empty()) at_ = At::kBehindName;
    return ReadResult::More();
  }
  // Behind a comma the list may end.
  if (c == ']' && name_.empty() && has_call_) return PushBehindCall(c, output);
  if (c != '(' || !tools_.Has(name_)) return ReadResult::Leave();
  scanner_ = LiteralScanner(LiteralScanner::Dialect::kPython);
  arguments_.clear();
  at_ = At::kArguments;
  return PushArguments(c, output);
}

ReadResult PythonCallReader::PushArguments(char c, CallOutput& output) {
  const ScanState state = scanner_.Push(c, arguments_);
  if (state == ScanState::kBad) return ReadResult::Leave();
  // The first keyword shows that this is a call.
  if (arguments_.size() > 1 && !output.is_open()) output.Begin(name_);
  if (output.is_open()) {
    output.Arguments(arguments_);
    arguments_.clear();
  }
  if (state == ScanState::kMore) return ReadResult::More();
  output.Arguments(arguments_);
  arguments_.clear();
  output.End();
  has_call_ = true;
  at_ = At::kBehindCall;
  return ReadResult::More();
}

ReadResult PythonCallReader::PushBehindCall(char c, CallOutput& output) {
  if (c == ',') {
    name_.clear();
    at_ = At::kName;
    output.Drop();
    return ReadResult::More();
  }
  if (c != ']') return ReadResult::Leave();
  output.Drop();
  if (block_end_.empty()) return ReadResult::Done();
  choice_.Start({block_end_});
  at_ = At::kEnd;
  return ReadResult::More();
}

}  // namespace lockstep::router
