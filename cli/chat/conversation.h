#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"

namespace lockstep::cli {

// The messages of a chat: an optional system message, then user and assistant in turn. Pure, except
// SaveTo.
class Conversation {
 public:
  void SetSystem(std::string text) { system_ = std::move(text); }  // empty: none
  void Reset() { turns_.clear(); }                                 // keeps the system message
  void AddUser(std::string text) { turns_.push_back({"user", std::move(text)}); }
  void AddAssistant(std::string text) { turns_.push_back({"assistant", std::move(text)}); }
  void DropLast() { turns_.pop_back(); }
  size_t num_turns() const { return turns_.size(); }

  void FillPrompt(lockstep::v1::ChatPrompt* prompt) const;
  std::string ToJson() const;  // {"messages": [{"role": ..., "content": ...}, ...]}
  std::string ToText() const;  // each message below a line with its role
  // JSON for a name that ends with ".json", else text. ALREADY_EXISTS for a file that exists.
  absl::Status SaveTo(const std::string& path) const;

 private:
  struct Turn {
    std::string role;
    std::string content;
  };
  std::vector<Turn> Messages() const;

  std::string system_;
  std::vector<Turn> turns_;
};

}  // namespace lockstep::cli
