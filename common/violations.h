#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"

namespace lockstep {

// Collects everything that is wrong with a configuration, so that all of it is reported at once.
class Violations {
 public:
  // `subject`, if given, comes first in the status: "subject: this; that".
  explicit Violations(std::string_view subject = "", std::string_view separator = "; ")
      : subject_(subject), separator_(separator) {}

  void Add(std::string_view violation) {
    text_ += fmt::format("{}{}", text_.empty() ? "" : separator_, violation);
  }
  void Require(bool holds, std::string_view violation) {
    if (!holds) Add(violation);
  }
  template <typename... Args>
    requires(sizeof...(Args) > 0)
  void Require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) Add(fmt::format(format, std::forward<Args>(args)...));
  }
  // Adds the error of a part, with `where` in front. Ignores OK.
  void Merge(const absl::Status& status, std::string_view where = "") {
    if (!status.ok()) Add(fmt::format("{}{}", where, Message(status)));
  }

  // INVALID_ARGUMENT with all violations, in order.
  absl::Status ToStatus() const {
    if (text_.empty()) return absl::OkStatus();
    return InvalidArgument("{}{}{}", subject_, subject_.empty() ? "" : ": ", text_);
  }

 private:
  const std::string subject_;
  const std::string separator_;
  std::string text_;
};

}  // namespace lockstep
