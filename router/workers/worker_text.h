#pragma once

#include <string>
#include <string_view>

namespace lockstep::router {

// Text of a worker for a log line or an error, which clients may read: its first 100 bytes, in
// quotes. Everything but printable ASCII is escaped, so that the result is valid everywhere.
std::string QuoteWorker(std::string_view text);

}  // namespace lockstep::router
