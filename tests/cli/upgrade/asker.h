#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/rigs/child_process.h"

namespace lockstep::testing {

// What a client makes of a stream: the tokens over gRPC, the text over HTTP. Empty if it failed.
inline std::string TokensOf(const Outcome& outcome) {
  const size_t start = outcome.output.find("\"token_ids\": [");
  if (outcome.exit_code != 0 || start == std::string::npos) return {};
  return outcome.output.substr(start, outcome.output.find(']', start) - start);
}
inline std::string TextOf(const Outcome& outcome) {
  constexpr std::string_view kText = "\"text\":\"";
  std::string text;
  for (size_t at = outcome.output.find(kText); at != std::string::npos;
       at = outcome.output.find(kText, at)) {
    at += kText.size();
    const size_t end = outcome.output.find("\",\"", at);
    text += outcome.output.substr(at, end - at);
  }
  return outcome.output.ends_with("data: [DONE]\n\n") ? text : "";
}

// Asks for the same again and again, from a thread of its own, until it is told to finish.
class Asker {
 public:
  Asker(std::string command, std::string (*read)(const Outcome&))
      : command_(std::move(command)), read_(read), expected_(read(RunShell(command_))) {
    EXPECT_FALSE(expected_.empty()) << command_;
  }
  void Start() {
    thread_ = std::thread([this] {
      do {
        const Outcome outcome = RunShell(command_);
        if (read_(outcome) != expected_) wrong_.push_back(outcome.output);
      } while (!finishes_);
    });
  }
  // The request that runs is the last one.
  void FinishSoon() { finishes_ = true; }
  // What differed from the first answer.
  std::vector<std::string> Finish() {
    FinishSoon();
    thread_.join();
    return wrong_;
  }

 private:
  const std::string command_;
  std::string (*const read_)(const Outcome&);
  const std::string expected_;
  std::atomic<bool> finishes_ = false;
  std::vector<std::string> wrong_;  // of the thread, until it has ended
  std::thread thread_;
};

}  // namespace lockstep::testing
