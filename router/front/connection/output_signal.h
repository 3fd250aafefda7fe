#pragma once

namespace lockstep::router {

// Tells a connection that output is ready. Never blocks and never calls back directly. May be
// called from any thread, also after the connection is gone.
class OutputSignal {
 public:
  virtual ~OutputSignal() = default;
  virtual void OnOutput() = 0;  // Take has something
};

}  // namespace lockstep::router
