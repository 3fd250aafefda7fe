#pragma once

#include <fmt/format.h>

#include <string_view>

namespace lockstep::internal {

// Prints "file:line: CHECK failed: condition: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace lockstep::internal

// A broken invariant of our own: never for input from a client, a file or the network.
// LOCKSTEP_CHECK(condition, "sentence with {} fields", ...): always on, also in release builds.
#define LOCKSTEP_CHECK(condition, ...)                                  \
  do {                                                                  \
    if (!(condition)) [[unlikely]] {                                    \
      ::lockstep::internal::CheckFailed(__FILE__, __LINE__, #condition, \
                                        ::fmt::format(__VA_ARGS__));    \
    }                                                                   \
  } while (false)
