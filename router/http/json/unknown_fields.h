#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::router {

// Names the ignored fields of a request in its answer.
inline constexpr std::string_view kIgnoredFieldsHeader = "X-Lockstep-Ignored-Fields";
inline constexpr size_t kMaxIgnoredFieldsBytes = 1024;

// The fields of one request that this router does not know. They are refused, or ignored and
// listed. Used by one thread.
class UnknownFields {
 public:
  explicit UnknownFields(bool refuse) : refuse_(refuse) {}

  // `path` is that of the object around the field; empty for the body itself. Not OK, UNIMPLEMENTED
  // with the field's name, when unknown fields are refused.
  absl::Status Add(std::string_view path, std::string_view name);

  // The value of kIgnoredFieldsHeader: paths, separated by ", ". Of a longer list the first ones,
  // then "...". Visible ASCII only; every other byte of a name, and each of `,%"\`, is "%NN". Empty
  // when every field was known.
  const std::string& list() const { return list_; }

 private:
  const bool refuse_;
  bool full_ = false;
  std::string list_;
};

}  // namespace lockstep::router
