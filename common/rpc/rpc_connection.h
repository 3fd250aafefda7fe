#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/rpc/poller.h"
#include "common/rpc/rpc_session.h"
#include "common/rpc/rpc_socket.h"
#include "common/runtime/mutex.h"

namespace lockstep {

class RpcConnection;

// Gets the events of a connection, on the thread that polls it, one call at a time. May call the
// connection.
class RpcHandler {
 public:
  virtual void OnRpcEvent(RpcConnection& connection, RpcEvent event) = 0;
  // The connection is ready for use: connected, and encrypted if it has TLS.
  virtual void OnConnected(RpcConnection& /*connection*/) {}
  // The last call. Every RPC of the connection has ended before.
  virtual void OnClosed(RpcConnection& connection, const absl::Status& reason) = 0;

 protected:
  ~RpcHandler() = default;
};

struct RpcTimeouts {
  absl::Duration handshake = absl::Seconds(10);  // until the first bytes of HTTP/2
  // After keepalive_time without bytes from the peer, the connection sends a PING. It ends if no
  // answer comes within keepalive_timeout.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  absl::Duration idle = absl::InfiniteDuration();  // without a call
};

// One gRPC connection: socket, TLS and session. Polled by one thread at a time. Reads a bounded
// number of bytes in one turn, so that it does not delay other connections of its thread. The
// methods may be called from any thread. Send writes on the calling thread, as far as the kernel
// takes the bytes.
class RpcConnection final : public Poller::Watcher,
                            public std::enable_shared_from_this<RpcConnection> {
 public:
  struct Options {
    RpcRole role = RpcRole::kClient;
    RpcLimits limits;
    RpcTimeouts timeouts;
    std::string authority;  // for a client's calls
  };
  using CallId = RpcSession::CallId;

  // Takes the descriptor, which must be non-blocking. The handler must live until OnClosed, or
  // until another handler is set.
  RpcConnection(int descriptor, SslPtr ssl, Options options, RpcHandler* handler);
  ~RpcConnection() override;

  // Starts polling. The poller must live until OnClosed or Detach.
  void Attach(Poller& poller);
  // Stops polling. Call this on the polling thread, but not from the handler. Then set a handler
  // and attach the connection elsewhere.
  void Detach();
  void SetHandler(RpcHandler* handler) { handler_ = handler; }

  // See RpcSession.
  CallId Call(std::string_view path);
  void Send(CallId call, std::string framed);
  void HalfClose(CallId call);
  void Finish(CallId call, const absl::Status& status);
  void Cancel(CallId call);
  void Allow(CallId call, uint32_t count, size_t max_bytes);
  void WidenWindow(CallId call, uint32_t num_bytes);

  // Ends the connection at once. OnClosed comes on the polling thread.
  void Close(const absl::Status& reason);
  // Allows no new calls. The connection ends after the open calls.
  void GoAway();
  // Bytes that were sent and that the kernel has not taken. The peer may not read, or may grant no
  // window.
  size_t num_unsent_bytes();
  bool has_unsent() { return num_unsent_bytes() > 0; }

 private:
  using Time = Poller::Time;

  void OnReady(uint32_t events) override;
  void OnTick(Time now) override;
  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Shake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WriteOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AfterChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Overdue(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the handler. Without the lock, on the polling thread.
  void Tell();

  const Options options_;
  RpcHandler* handler_;  // used by the polling thread only

  Mutex mutex_;
  RpcSocket socket_ ABSL_GUARDED_BY(mutex_);
  RpcSession session_ ABSL_GUARDED_BY(mutex_);
  Poller* poller_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t key_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t watched_ ABSL_GUARDED_BY(mutex_) = 0;  // events
  bool shaken_ ABSL_GUARDED_BY(mutex_) = false;
  bool connected_told_ ABSL_GUARDED_BY(mutex_) = false;
  bool received_any_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;   // `reason_` is set
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;   // OnClosed was called, or is about to be
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;  // Tell runs, and checks again before it returns
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  std::string out_ ABSL_GUARDED_BY(mutex_);               // frames that the kernel did not take yet
  size_t num_written_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of out_
  const Time began_ = std::chrono::steady_clock::now();
  Time received_at_ ABSL_GUARDED_BY(mutex_) = began_;
  Time pinged_at_ ABSL_GUARDED_BY(mutex_);  // the epoch: no PING is unanswered
  Time idle_since_ ABSL_GUARDED_BY(mutex_) = began_;
};

}  // namespace lockstep
