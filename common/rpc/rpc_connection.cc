#include "common/rpc/rpc_connection.h"

#include <sys/epoll.h>

#include <array>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

// What a connection reads before other connections of its thread get a turn.
constexpr size_t kReadBytesOfTurn = 32 << 10;
constexpr size_t kWriteBytes = 64 << 10;
constexpr size_t kKeptBytes = 16 << 10;  // capacity of out_ that is kept

absl::Duration Since(Poller::Time then, Poller::Time now) { return absl::FromChrono(now - then); }

}  // namespace

RpcConnection::RpcConnection(int descriptor, SslPtr ssl, Options options, RpcHandler* handler)
    : options_(std::move(options)),
      handler_(handler),
      socket_(descriptor, std::move(ssl)),
      session_(options_.role, options_.limits) {}

RpcConnection::~RpcConnection() = default;

void RpcConnection::Attach(Poller& poller) {
  MutexLock lock(mutex_);
  poller_ = &poller;
  watched_ = EPOLLIN | EPOLLOUT;
  key_ = poller.Add(socket_.descriptor(), watched_, shared_from_this());
}

void RpcConnection::Detach() {
  MutexLock lock(mutex_);
  if (poller_ == nullptr) return;
  poller_->Remove(key_, socket_.descriptor());
  poller_ = nullptr;
}

RpcConnection::CallId RpcConnection::Call(std::string_view path) {
  MutexLock lock(mutex_);
  if (ending_) return 0;
  const std::string_view scheme = socket_.encrypted() ? "https" : "http";
  const CallId call = session_.Call(options_.authority, scheme, path);
  AfterChange();
  return call;
}

void RpcConnection::Send(CallId call, std::string framed) {
  MutexLock lock(mutex_);
  session_.Send(call, std::move(framed));
  AfterChange();
}

void RpcConnection::HalfClose(CallId call) {
  MutexLock lock(mutex_);
  session_.HalfClose(call);
  AfterChange();
}

void RpcConnection::Finish(CallId call, const absl::Status& status) {
  MutexLock lock(mutex_);
  session_.Finish(call, status);
  AfterChange();
}

void RpcConnection::Cancel(CallId call) {
  MutexLock lock(mutex_);
  session_.Cancel(call);
  AfterChange();
}

void RpcConnection::Allow(CallId call, uint32_t count, size_t max_bytes) {
  MutexLock lock(mutex_);
  session_.Allow(call, count, max_bytes);
  AfterChange();
}

void RpcConnection::WidenWindow(CallId call, uint32_t num_bytes) {
  MutexLock lock(mutex_);
  session_.WidenWindow(call, num_bytes);
  AfterChange();
}

void RpcConnection::GoAway() {
  MutexLock lock(mutex_);
  session_.GoAway();
  AfterChange();
}

void RpcConnection::Close(const absl::Status& reason) {
  MutexLock lock(mutex_);
  End(reason);
  socket_.ShutDown();
  AfterChange();
}

size_t RpcConnection::num_unsent_bytes() {
  MutexLock lock(mutex_);
  if (ending_) return 0;
  return out_.size() - num_written_bytes_ + session_.num_output_bytes();
}

// Call after every method: there may be output to write or events to deliver.
void RpcConnection::AfterChange() {
  if (poller_ == nullptr) return;
  if (shaken_ && !ending_) {
    Flush();
    Watch();
  }
  if (telling_ || closed_ || !(ending_ || session_.has_events())) return;
  poller_->Post([self = shared_from_this()] { self->Tell(); });
}

void RpcConnection::OnReady(uint32_t /*events*/) {
  {
    MutexLock lock(mutex_);
    if (!ending_) TakeTurn();
  }
  Tell();
}

void RpcConnection::OnTick(Time now) {
  {
    MutexLock lock(mutex_);
    if (!ending_) End(Overdue(now));
    if (!ending_ && shaken_) {
      Flush();
      Watch();
    }
  }
  Tell();
}

void RpcConnection::TakeTurn() {
  if (!shaken_) Shake();
  if (shaken_ && !ending_) Read();
  if (shaken_ && !ending_) Flush();
  if (!ending_ && session_.over()) End(Unavailable("the other side ended the connection"));
  if (!ending_) Watch();
}

void RpcConnection::Shake() {
  switch (socket_.Handshake()) {
    case RpcSocket::Result::kDone:
      shaken_ = true;
      return;
    case RpcSocket::Result::kWouldBlock:
      return;
    case RpcSocket::Result::kClosed:
      return End(Unavailable("{}", socket_.error()));
  }
}

void RpcConnection::Read() {
  thread_local std::array<char, kReadBytesOfTurn> room;
  for (size_t num_read = 0; num_read < kReadBytesOfTurn || socket_.has_unread();) {
    size_t num_bytes = 0;
    const RpcSocket::Result result = socket_.Read(room.data(), room.size(), num_bytes);
    if (result == RpcSocket::Result::kWouldBlock) return;
    if (result == RpcSocket::Result::kClosed) return End(Unavailable("{}", socket_.error()));
    num_read += num_bytes;
    received_any_ = true;
    received_at_ = std::chrono::steady_clock::now();
    pinged_at_ = {};
    if (!session_.Receive({room.data(), num_bytes}, received_at_)) {
      Flush();  // sends the reason
      return End(Unavailable("the other side breaks the protocol: {}", session_.violation()));
    }
    // Without TLS, a read that leaves room took everything.
    if (num_bytes < room.size() && !socket_.encrypted()) return;
  }
}

void RpcConnection::Flush() {
  while (!ending_) {
    if (num_written_bytes_ == out_.size()) {
      out_.clear();
      num_written_bytes_ = 0;
      if (out_.capacity() > kKeptBytes) std::string().swap(out_);
      session_.Pull(kWriteBytes, out_);
      if (out_.empty()) return;
    }
    if (!WriteOut()) return;
  }
}

bool RpcConnection::WriteOut() {
  size_t num_bytes = 0;
  const RpcSocket::Result result =
      socket_.Write(std::string_view(out_).substr(num_written_bytes_), num_bytes);
  if (result == RpcSocket::Result::kDone) {
    num_written_bytes_ += num_bytes;
    return true;
  }
  if (result == RpcSocket::Result::kClosed) End(Unavailable("{}", socket_.error()));
  return false;
}

// Does nothing if the reason is OK.
void RpcConnection::End(const absl::Status& reason) {
  if (ending_ || reason.ok()) return;
  ending_ = true;
  reason_ = reason;
  session_.EndAll(reason);
}

absl::Status RpcConnection::Overdue(Time now) {
  const RpcTimeouts& timeouts = options_.timeouts;
  if (!received_any_) {
    return Since(began_, now) > timeouts.handshake ? Unavailable("no HTTP/2 came in time")
                                                   : absl::OkStatus();
  }
  if (session_.num_calls() > 0) idle_since_ = now;
  if (Since(idle_since_, now) > timeouts.idle) {
    session_.GoAway();
    Flush();
    return Unavailable("the connection was idle");
  }
  if (pinged_at_ != Time()) {
    return Since(pinged_at_, now) > timeouts.keepalive_timeout
               ? Unavailable("the other side gives no sign of life")
               : absl::OkStatus();
  }
  if (Since(received_at_, now) > timeouts.keepalive_time) {
    pinged_at_ = now;
    session_.Ping();
  }
  return absl::OkStatus();
}

void RpcConnection::Watch() {
  const bool writes = num_written_bytes_ < out_.size() || socket_.waits_for_room();
  const uint32_t wanted = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (poller_ == nullptr || wanted == watched_) return;
  watched_ = wanted;
  poller_->Change(key_, socket_.descriptor(), wanted);
}

void RpcConnection::Tell() {
  const std::shared_ptr<RpcConnection> self = shared_from_this();
  for (;;) {
    std::vector<RpcEvent> events;
    bool connected = false;
    bool closes = false;
    {
      MutexLock lock(mutex_);
      connected = shaken_ && !std::exchange(connected_told_, shaken_);
      events = session_.TakeEvents();
      const bool ends = ending_ && !closed_;
      telling_ = connected || !events.empty() || ends;
      if (!telling_) return;
      if (events.empty() && !connected) {  // everything else was delivered
        if (poller_ != nullptr) poller_->Remove(key_, socket_.descriptor());
        poller_ = nullptr;
        closed_ = closes = true;
      }
    }
    if (connected) handler_->OnConnected(*this);
    for (RpcEvent& event : events) handler_->OnRpcEvent(*this, std::move(event));
    if (!closes) continue;
    absl::Status reason;
    {
      MutexLock lock(mutex_);
      telling_ = false;
      reason = reason_;
    }
    return handler_->OnClosed(*this, reason);
  }
}

}  // namespace lockstep
