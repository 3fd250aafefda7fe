#pragma once

namespace lockstep::router {

// From what makes an answer to the connection that waits for it. Never blocks, never calls back at
// once; from any thread, also when the connection is gone.
class OutputSignal {
 public:
  virtual ~OutputSignal() = default;
  virtual void OnOutput() = 0;  // Take has something
};

}  // namespace lockstep::router
