#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

struct BenchMessage {
  std::string role;
  std::string content;

  friend bool operator==(const BenchMessage&, const BenchMessage&) = default;
};

// The content of a request of a load. One of `token_ids` and `messages` is not empty. Only the
// length ends the output.
struct BenchRequest {
  std::vector<uint32_t> token_ids = {};
  std::vector<BenchMessage> messages = {};  // the last one is the user's
  uint32_t max_tokens = 1;

  friend bool operator==(const BenchRequest&, const BenchRequest&) = default;
};

}  // namespace lockstep::cli
