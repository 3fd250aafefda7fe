#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/output_parser.h"

namespace lockstep::router {

// Appends parts to the vector of the current call of the parser. Joins neighbours of a kind.
class PartWriter {
 public:
  void SetTarget(std::vector<OutputPart>& parts) {
    parts_ = &parts;
    num_before_ = parts.size();
  }

  // Content, reasoning or arguments.
  void Text(OutputPart::Kind kind, std::string_view text) {
    if (text.empty()) return;
    if (parts_->size() > num_before_ && parts_->back().kind == kind) {
      parts_->back().text += text;
    } else {
      parts_->push_back({kind, std::string(text)});
    }
  }
  void Event(OutputPart::Kind kind, std::string text = "") {
    parts_->push_back({kind, std::move(text)});
  }

 private:
  std::vector<OutputPart>* parts_ = nullptr;
  size_t num_before_ = 0;
};

}  // namespace lockstep::router
