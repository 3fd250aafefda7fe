#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/tls/tls_files.h"
#include "common/rpc/poller.h"
#include "common/rpc/rpc_connection.h"

namespace lockstep {

// A client of one server. The calling thread polls the connection while it waits, so the server's
// bytes cost no other thread any work. Cancel may be called from any thread; everything else
// belongs to one thread.
class RpcClient final : private RpcHandler {
 public:
  struct Options {
    std::string address;  // host:port or unix:PATH
    TlsClientFiles tls;   // none: plaintext
    RpcLimits limits;
    RpcTimeouts timeouts;
  };

  explicit RpcClient(Options options);
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;
  ~RpcClient();

  // One call with one message each way. Connects first if needed. `framed` comes from FrameMessage.
  // DEADLINE_EXCEEDED if it takes longer than `timeout`, CANCELLED after Cancel.
  absl::StatusOr<std::string> Call(std::string_view path, std::string framed,
                                   absl::Duration timeout);
  // Ends the current call and all later ones with CANCELLED. Safe to use from any thread.
  void Cancel();

  bool connected() const { return connection_ != nullptr && connected_; }
  void Disconnect();
  // Gives the connection to the caller, who must set a handler and attach it. No call may be open.
  std::shared_ptr<RpcConnection> Release();

 private:
  using Time = Poller::Time;

  void OnRpcEvent(RpcConnection& connection, RpcEvent event) override;
  void OnConnected(RpcConnection& connection) override;
  void OnClosed(RpcConnection& connection, const absl::Status& reason) override;

  absl::Status Connect(Time deadline);
  absl::Status ConnectTo(const struct SocketAddress& address, Time deadline);
  // Polls until `holds` is true. An error after the deadline or Cancel.
  template <typename Condition>
  absl::Status PollUntil(Time deadline, Condition holds);

  const Options options_;
  const std::shared_ptr<Poller> poller_ = std::make_shared<Poller>();
  std::atomic<bool> cancelled_ = false;
  std::shared_ptr<RpcConnection> connection_;
  bool connected_ = false;
  bool closed_ = true;
  absl::Status close_reason_;
  // --- the current call ---
  bool ended_ = false;
  absl::Status status_;
  int num_messages_ = 0;
  std::string message_;
};

}  // namespace lockstep
