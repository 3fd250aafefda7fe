#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/status.h"

namespace lockstep::router {

// Collects what is wrong with a configuration, so that its owner hears of everything at once.
class Violations {
 public:
  void Add(std::string_view violation) {
    text_ += fmt::format("{}{}", text_.empty() ? "" : "; ", violation);
  }
  void Require(bool holds, std::string_view violation) {
    if (!holds) Add(violation);
  }
  // A status of a part, after `where`.
  void Merge(const absl::Status& status, std::string_view where = "") {
    if (!status.ok()) Add(fmt::format("{}{}", where, Message(status)));
  }

  // INVALID_ARGUMENT with all of them, in order.
  absl::Status ToStatus() const {
    return text_.empty() ? absl::OkStatus() : InvalidArgument("{}", text_);
  }

 private:
  std::string text_;
};

}  // namespace lockstep::router
