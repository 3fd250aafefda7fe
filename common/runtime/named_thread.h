#pragma once

#include <pthread.h>

#include <concepts>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "common/check.h"

namespace lockstep {

// A std::jthread with a name that ps, gdb and core dumps show. The destructor joins; before that,
// it asks `body` to stop if `body` takes a std::stop_token. Movable.
class NamedThread {
 public:
  static constexpr size_t kMaxNameLength = 15;  // limit of Linux

  NamedThread() = default;  // no thread

  template <typename Body>
    requires std::invocable<Body&, std::stop_token> || std::invocable<Body&>
  NamedThread(std::string name, Body body) {
    LOCKSTEP_CHECK(name.size() <= kMaxNameLength, "thread name \"{}\" is longer than {} characters",
                   name, kMaxNameLength);
    thread_ = std::jthread(
        [name = std::move(name), body = std::move(body)](std::stop_token stop) mutable {
          pthread_setname_np(pthread_self(), name.c_str());
          if constexpr (std::invocable<Body&, std::stop_token>) {
            body(std::move(stop));
          } else {
            body();
          }
        });
  }

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  void request_stop() { thread_.request_stop(); }
  std::thread::id get_id() const { return thread_.get_id(); }

 private:
  std::jthread thread_;
};

}  // namespace lockstep
