#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

// One request as its client measured it. Times are seconds since the load began.
struct RequestRecord {
  double scheduled = 0.0;  // when it was due. Latencies count from here, even if it was sent late
  double sent = 0.0;
  double end = 0.0;
  // When pieces of output came. A server may put several tokens in one piece.
  std::vector<double> pieces = {};
  uint32_t prompt_tokens = 0;  // by the server's count, as the next two
  uint32_t cached_tokens = 0;
  uint32_t output_tokens = 0;
  std::string error = {};  // empty: the answer was complete
  bool cut_off = false;    // by the user, who ended the load
};

}  // namespace lockstep::cli
