#include "common/rpc/rpc_client.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/net/address.h"
#include "common/net/unix_socket.h"
#include "common/rpc/rpc_target.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Durations above a year, also "never", become a year, so that they can be added to a time point.
std::chrono::nanoseconds Bounded(absl::Duration duration) {
  return absl::ToChronoNanoseconds(
      std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365)));
}

std::string HostOf(const std::string& address) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  return parsed.ok() ? parsed->host : "localhost";
}

}  // namespace

RpcClient::RpcClient(Options options) : options_(std::move(options)) {}

RpcClient::~RpcClient() { Disconnect(); }

void RpcClient::Cancel() {
  cancelled_ = true;
  poller_->Wake();
}

void RpcClient::Disconnect() {
  if (connection_ != nullptr) connection_->Detach();
  connection_ = nullptr;
  connected_ = false;
  closed_ = true;
}

std::shared_ptr<RpcConnection> RpcClient::Release() {
  const std::shared_ptr<RpcConnection> released = connection_;
  Disconnect();
  return released;
}

template <typename Condition>
absl::Status RpcClient::PollUntil(Time deadline, Condition holds) {
  while (!holds()) {
    if (cancelled_) return absl::CancelledError("cancelled");
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError("no answer in time");
    }
    poller_->Poll(deadline);
  }
  return absl::OkStatus();
}

absl::Status RpcClient::Connect(Time deadline) {
  Disconnect();
  const std::shared_ptr<NameLookup> lookup =
      NameLookup::Start(options_.address, [poller = poller_] { poller->Wake(); });
  LOCKSTEP_RETURN_IF_ERROR(PollUntil(deadline, [&] { return lookup->done(); }));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, lookup->result());
  absl::Status status = Unavailable("no address");
  for (size_t i = 0; i < addresses.size(); ++i) {
    // An address that does not answer must leave time for the next ones.
    const Time now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<int64_t>(addresses.size() - i);
    status = ConnectTo(addresses[i], now + share);
    if (status.ok() || absl::IsCancelled(status)) return status;
  }
  return status;
}

absl::Status RpcClient::ConnectTo(const SocketAddress& address, Time deadline) {
  SslPtr ssl;
  if (options_.tls.enabled()) {
    LOCKSTEP_ASSIGN_OR_RETURN(ssl, MakeClientTls(options_.tls, HostOf(options_.address)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const int descriptor, BeginConnecting(address));
  RpcHandler* const handler = this;
  connection_ = std::make_shared<RpcConnection>(
      descriptor, std::move(ssl),
      RpcConnection::Options{
          .role = RpcRole::kClient,
          .limits = options_.limits,
          .timeouts = options_.timeouts,
          .authority = IsUnixAddress(options_.address) ? "localhost" : options_.address},
      handler);
  closed_ = false;
  connection_->Attach(*poller_);
  absl::Status status = PollUntil(deadline, [this] { return connected_ || closed_; });
  if (status.ok() && closed_) status = close_reason_;
  if (!status.ok()) Disconnect();
  return status;
}

absl::StatusOr<std::string> RpcClient::Call(std::string_view path, std::string framed,
                                            absl::Duration timeout) {
  const Time deadline = std::chrono::steady_clock::now() + Bounded(timeout);
  if (connected()) poller_->Poll(Time::min());  // notices if it has ended meanwhile
  if (!connected()) LOCKSTEP_RETURN_IF_ERROR(Connect(deadline));
  ended_ = false;
  num_messages_ = 0;
  message_.clear();
  const RpcConnection::CallId call = connection_->Call(path);
  if (call == 0) {
    Disconnect();
    return Unavailable("the server takes no more calls");
  }
  connection_->Send(call, std::move(framed));
  connection_->HalfClose(call);
  absl::Status status = PollUntil(deadline, [this] { return ended_; });
  if (!status.ok()) {
    // The connection may be dead without any sign.
    Disconnect();
    return status;
  }
  status = status_;
  if (status.ok() && num_messages_ != 1) {
    status = Internal("expected one message, got {}", num_messages_);
  }
  if (closed_) Disconnect();
  if (!status.ok()) return status;
  return std::exchange(message_, {});
}

// Events of an abandoned connection may still arrive.
void RpcClient::OnRpcEvent(RpcConnection& connection, RpcEvent event) {
  if (&connection != connection_.get()) return;
  switch (event.kind) {
    case RpcEvent::Kind::kMessage:
      if (++num_messages_ == 1) message_ = std::move(event.bytes);
      return;
    case RpcEvent::Kind::kEnd:
      ended_ = true;
      status_ = std::move(event.status);
      return;
    default:
      return;
  }
}

void RpcClient::OnConnected(RpcConnection& connection) {
  if (&connection == connection_.get()) connected_ = true;
}

void RpcClient::OnClosed(RpcConnection& connection, const absl::Status& reason) {
  if (&connection != connection_.get()) return;
  closed_ = true;
  connected_ = false;
  close_reason_ = reason;
}

}  // namespace lockstep
