#pragma once

#include <absl/time/time.h>

#include <string>
#include <string_view>

namespace lockstep {

// A time in HTTP's format, in any locale: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string FormatHttpDate(absl::Time time);

// The Date field of an answer that is made now (RFC 9110, 6.6.1). Each thread formats it once a
// second. Valid until the thread calls again.
std::string_view HttpDate();

}  // namespace lockstep
