#pragma once

#include <grpcpp/completion_queue.h>

namespace lockstep {

// A completion queue for calls of others, whose thread polls the sockets of these calls and handles
// the CompletionTags in the queue. So an object can make calls without a thread that polls.
class PolledQueue {
 public:
  virtual grpc::CompletionQueue* queue() = 0;
  // A user has tags in the queue, or will have some. Add users from any thread; remove them on the
  // queue's thread.
  virtual void AddUser() = 0;
  virtual void RemoveUser() = 0;

 protected:
  ~PolledQueue() = default;
};

}  // namespace lockstep
