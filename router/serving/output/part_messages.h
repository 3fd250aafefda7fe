#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/calls/output_parser.h"

namespace lockstep::router {

// Puts the parts of one sample's output into messages. Within a message, reasoning comes before
// text, and text before calls. A part that would break this order begins a message of its own. Used
// by one thread at a time.
class PartMessages {
 public:
  // `id_of`: the id of the call with this number.
  PartMessages(uint32_t sample, std::function<std::string(uint32_t)> id_of);

  // Appends to the last message if that is a delta of this sample, and else to `messages`.
  void Add(OutputPart part, std::vector<lockstep::v1::GenerateResponse>& messages);

 private:
  lockstep::v1::OutputDelta& DeltaFor(OutputPart::Kind kind,
                                      std::vector<lockstep::v1::GenerateResponse>& messages) const;

  const uint32_t sample_;
  const std::function<std::string(uint32_t)> id_of_;
  uint32_t num_calls_ = 0;  // that have begun
};

}  // namespace lockstep::router
