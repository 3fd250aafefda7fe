#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::router {

// The answer's header with the names of ignored fields.
inline constexpr std::string_view kIgnoredFieldsHeader = "X-Lockstep-Ignored-Fields";
inline constexpr size_t kMaxIgnoredFieldsBytes = 1024;

// The unknown fields of one request. They are refused, or ignored and listed. Used by one thread.
class UnknownFields {
 public:
  explicit UnknownFields(bool refuse) : refuse_(refuse) {}

  bool refuses() const { return refuse_; }

  // `path`: of the object around the field; empty for the body itself. UNIMPLEMENTED with the
  // field's name if unknown fields are refused.
  absl::Status Add(std::string_view path, std::string_view name);

  // The value of kIgnoredFieldsHeader: paths, separated by ", ". A list that is too long ends with
  // "...". Visible ASCII only: every other byte of a name, and each of `,%"\`, is "%NN". Empty if
  // all fields were known.
  const std::string& list() const { return list_; }

 private:
  const bool refuse_;
  bool full_ = false;
  std::string list_;
};

}  // namespace lockstep::router
