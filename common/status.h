#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

// absl::Status is how errors cross our interfaces. Messages are made with fmt, because Debian's
// absl::string_view does not convert from std::string_view.
namespace lockstep {

template <typename... Args>
absl::Status MakeError(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kFailedPrecondition, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kNotFound, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kResourceExhausted, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kUnavailable, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kUnimplemented, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kInternal, format, std::forward<Args>(args)...);
}

inline std::string Message(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// The same status with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", context, Message(status)));
}

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

#define LOCKSTEP_RETURN_IF_ERROR(expression)                                \
  do {                                                                      \
    if (absl::Status lockstep_status = (expression); !lockstep_status.ok()) \
      return lockstep_status;                                               \
  } while (false)

#define LOCKSTEP_ASSIGN_OR_RETURN(declaration, expression) \
  LOCKSTEP_ASSIGN_OR_RETURN_IMPL(LOCKSTEP_CONCAT(lockstep_or_, __LINE__), declaration, expression)
#define LOCKSTEP_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) return temporary.status();                          \
  declaration = *std::move(temporary)
