#pragma once

#include <optional>
#include <string>

#include "router/front/connection/header_list.h"

namespace lockstep::router {

// The answer to one request, as its connection pulls it. The connection takes the next output only
// when the last has left. So a slow client makes the exchange hold its output back, and the
// exchange bounds how much. Called on the connection's strand.
class Exchange {
 public:
  struct Output {
    // Includes ":status". Must be in the first output that is not empty.
    std::optional<HeaderList> head = {};
    std::string body = {};
    HeaderList trailers = {};  // with the last output, if any; over HTTP/2 only
    bool last = false;

    bool empty() const { return !head.has_value() && body.empty() && !last; }
  };

  virtual ~Exchange() = default;
  virtual Output Take() = 0;
  virtual void OnWritten() = 0;  // what Take returned was sent, or is on its way
  // Called once, as the last call: everything was sent, or the client is gone.
  virtual void OnClosed() = 0;
};

}  // namespace lockstep::router
