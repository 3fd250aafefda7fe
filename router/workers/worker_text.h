#pragma once

#include <string>
#include <string_view>

namespace lockstep::router {

// Quotes a worker's text for a log line or an error that clients may read. Keeps the first 100
// bytes. Escapes everything but printable ASCII, so that the result is valid everywhere.
std::string QuoteWorker(std::string_view text);

}  // namespace lockstep::router
