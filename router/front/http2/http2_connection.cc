#include "router/front/http2/http2_connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/release_memory.h"
#include "router/front/connection/deadline.h"
#include "router/front/connection/open_connections.h"
#include "router/front/http2/http2_session.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// What a connection reads and writes before other connections of its thread get a turn. Reads are
// small, because small requests cost far more work than their bytes suggest.
constexpr size_t kReadBytesOfTurn = 8 << 10;
constexpr size_t kWriteBytesOfTurn = 256 << 10;
constexpr size_t kWriteBytes = 64 << 10;
// The client has this long to read why the connection ends. Further bytes from it are dropped.
constexpr std::chrono::seconds kLingerTimeout(2);
constexpr size_t kMaxLingerBytes = 1 << 20;
constexpr std::chrono::milliseconds kMinStallCheck(10);
constexpr std::chrono::seconds kMaxStallCheck(5);

std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  // Durations above a year, also "never", become a year, so that they can be added to a time point.
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

// One connection. Runs on the strand of its socket. The handlers of its pending operations keep it
// alive.
class Http2Connection final : public OpenConnection,
                              public std::enable_shared_from_this<Http2Connection> {
 public:
  Http2Connection(std::unique_ptr<ConnectionStream> stream, ConnectionContext& context);
  ~Http2Connection() override;

  void Start(std::string_view received);
  void Finish() override;
  void Announce() override;

 private:
  // The streams' reference to the connection. Outlives it.
  class Hub;
  class Signal;

  std::shared_ptr<StreamHandler> Open(StreamRequest request, Http2Session::StreamId id);
  void EndBy(void (Http2Session::*goodbye)());

  // --- reading ---
  void Read();
  void OnReadable(error_code error);
  void OnRead(std::string_view bytes);

  // --- writing ---
  void Flush();
  void FlushInNextTurn();
  bool SendSome();
  void WriteRest();
  void OnSent(error_code error, size_t num_bytes);

  // --- time ---
  Clock::time_point NextDue(Clock::time_point now) const;
  void Rearm(Clock::time_point now);
  void OnDeadline();
  bool IsIdleForTooLong(Clock::time_point now) const;
  bool IsOverdue(Clock::time_point now);
  std::chrono::nanoseconds StallCheckInterval() const;

  void CountViolation();
  void Linger();
  void Close();

  ConnectionContext& context_;
  const uint64_t id_;
  const std::unique_ptr<ConnectionStream> stream_;
  const ConnectionLimiter::AddressKey address_;
  const std::shared_ptr<Hub> hub_;
  Http2Session session_;
  Deadline deadline_;
  std::vector<Http2Session::StreamId> ready_;

  std::string tls_buffer_;
  std::string out_;  // frames that the kernel did not take yet
  size_t num_sent_bytes_ = 0;
  size_t num_untaken_bytes_ = 0;  // unacknowledged when the write began to wait
  ByteBudget::Share held_;        // counts out_
  ByteBudget::Share header_;      // counts the open header block
  bool reading_ = false;
  bool writing_ = false;
  bool flush_posted_ = false;
  bool draining_ = false;
  bool lingering_ = false;
  bool closed_ = false;
  bool violation_counted_ = false;
  size_t num_lingered_bytes_ = 0;

  const Clock::time_point began_;
  Clock::time_point received_at_;
  Clock::time_point pinged_at_;  // the epoch: no PING is unanswered
  Clock::time_point wrote_at_;
  Clock::time_point idle_since_;
  Clock::time_point stall_check_at_;
  Clock::time_point header_since_;  // the epoch: no header block is open
  uint64_t num_header_blocks_ = 0;  // begun so far, at the last read
  Clock::time_point armed_for_ = Clock::time_point::max();
};

class Http2Connection::Hub {
 public:
  explicit Hub(Http2Connection* connection) : connection_(connection) {}

  // Any thread may call this: the stream has output.
  void OnOutput(Http2Session::StreamId id) {
    MutexLock lock(mutex_);
    if (connection_ == nullptr) return;
    ready_.push_back(id);
    if (std::exchange(expected_, true)) return;
    // Posts a weak pointer, because the connection's destructor takes this lock.
    asio::defer(connection_->stream_->executor(), [weak = connection_->weak_from_this()] {
      if (const std::shared_ptr<Http2Connection> alive = weak.lock()) alive->Flush();
    });
  }
  // The connection will call TakeReady, so OnOutput need not wake it.
  void Expect() {
    MutexLock lock(mutex_);
    expected_ = true;
  }
  // False if no stream has output. OnOutput then wakes the connection again.
  bool TakeReady(std::vector<Http2Session::StreamId>& ready) {
    ready.clear();
    MutexLock lock(mutex_);
    ready.swap(ready_);
    expected_ = !ready.empty();
    return expected_;
  }
  void Detach() {
    MutexLock lock(mutex_);
    connection_ = nullptr;
  }

 private:
  Mutex mutex_;
  Http2Connection* connection_ ABSL_GUARDED_BY(mutex_);
  std::vector<Http2Session::StreamId> ready_ ABSL_GUARDED_BY(mutex_);
  bool expected_ ABSL_GUARDED_BY(mutex_) = false;
};

class Http2Connection::Signal final : public OutputSignal {
 public:
  Signal(std::shared_ptr<Hub> hub, Http2Session::StreamId id) : hub_(std::move(hub)), id_(id) {}
  void OnOutput() override { hub_->OnOutput(id_); }

 private:
  const std::shared_ptr<Hub> hub_;
  const Http2Session::StreamId id_;
};

Http2Connection::Http2Connection(std::unique_ptr<ConnectionStream> stream,
                                 ConnectionContext& context)
    : context_(context),
      id_(context.next_connection_id.fetch_add(1)),
      stream_(std::move(stream)),
      address_(stream_->address()),
      hub_(std::make_shared<Hub>(this)),
      session_(context.http2,
               [this](StreamRequest request, Http2Session::StreamId id) {
                 return Open(std::move(request), id);
               }),
      deadline_(stream_->executor(), [this] { OnDeadline(); }),
      held_(context.memory),
      header_(&context.memory, &context.memory.strangers()),
      began_(Clock::now()),
      received_at_(began_),
      idle_since_(began_) {}

Http2Connection::~Http2Connection() {
  hub_->Detach();
  context_.open.Remove(this);
}

void Http2Connection::Start(std::string_view received) {
  context_.open.Add(shared_from_this());
  if (!received.empty()) OnRead(received);
  Flush();
  Read();
}

void Http2Connection::Finish() { EndBy(&Http2Session::GoAway); }

void Http2Connection::Announce() { EndBy(&Http2Session::AnnounceEnd); }

void Http2Connection::EndBy(void (Http2Session::*goodbye)()) {
  asio::post(stream_->executor(), [weak = weak_from_this(), goodbye] {
    const std::shared_ptr<Http2Connection> self = weak.lock();
    if (self == nullptr) return;
    (self->session_.*goodbye)();
    self->Flush();
  });
}

std::shared_ptr<StreamHandler> Http2Connection::Open(StreamRequest request,
                                                     Http2Session::StreamId id) {
  request.connection_id = id_;
  request.address = address_;
  request.home = stream_->home();
  request.loopback_only = stream_->loopback_only();
  // While the server drains, connections should end. This stream is still answered, and so are
  // streams that the client has already sent.
  draining_ = draining_ || context_.draining();
  return context_.open_stream(std::move(request), std::make_shared<Signal>(hub_, id));
}

void Http2Connection::Read() {
  if (closed_ || reading_) return;
  // Reading pauses while many frames wait to be sent.
  if ((writing_ || flush_posted_) && session_.backed_up()) return;
  reading_ = true;
  if (!stream_->encrypted()) {
    return stream_->AwaitReadable(
        [self = shared_from_this()](error_code error) { self->OnReadable(error); });
  }
  tls_buffer_.resize(kReadBytesOfTurn);
  stream_->ReadSome(asio::buffer(tls_buffer_),
                    [self = shared_from_this()](error_code error, size_t num_bytes) {
                      self->reading_ = false;
                      if (error) return self->Close();
                      self->OnRead(std::string_view(self->tls_buffer_).substr(0, num_bytes));
                      self->Flush();
                      self->Read();
                    });
}

void Http2Connection::OnReadable(error_code error) {
  // The buffer belongs to the thread, so that waiting connections need none. Bytes that do not fit
  // stay in the kernel until the next turn.
  thread_local std::array<char, kReadBytesOfTurn> room;
  reading_ = false;
  if (closed_) return;
  const size_t num_bytes = error ? 0 : stream_->ReadNow(asio::buffer(room), error);
  if (error && error != asio::error::would_block) return Close();
  if (num_bytes > 0) OnRead({room.data(), num_bytes});
  Flush();
  Read();
}

void Http2Connection::OnRead(std::string_view bytes) {
  if (closed_) return;
  if (lingering_) {
    num_lingered_bytes_ += bytes.size();
    if (num_lingered_bytes_ > kMaxLingerBytes) Close();
    return;
  }
  const Clock::time_point now = Clock::now();
  received_at_ = now;
  pinged_at_ = Clock::time_point();
  hub_->Expect();
  if (!session_.Receive(bytes, now)) {
    spdlog::debug("connection {} ends: {}", id_, session_.violation());
    if (writing_) return Close();
  }
  // The tenant is not known before the header is complete.
  if (!header_.Resize(session_.num_header_block_bytes())) return Close();
  if (!session_.in_header_block()) {
    header_since_ = Clock::time_point();
  } else if (header_since_ == Clock::time_point() ||
             session_.num_header_blocks() != num_header_blocks_) {
    header_since_ = now;
  }
  num_header_blocks_ = session_.num_header_blocks();
}

void Http2Connection::Flush() {
  if (closed_ || lingering_) return;
  size_t num_bytes = 0;
  bool more = true;
  while (more) {
    if (num_bytes >= kWriteBytesOfTurn) {
      FlushInNextTurn();
      break;
    }
    more = hub_->TakeReady(ready_);
    const Clock::time_point now = Clock::now();
    for (const Http2Session::StreamId id : ready_) session_.Wake(id, now);
    if (draining_) session_.AnnounceEnd();
    if (!writing_ && SendSome()) {
      num_bytes += num_sent_bytes_;
      more = true;
    }
    if (closed_) return;
  }
  if (!writing_ && session_.over()) return Linger();
  const Clock::time_point now = Clock::now();
  if (session_.num_streams() > 0) idle_since_ = now;
  Rearm(now);
}

void Http2Connection::FlushInNextTurn() {
  hub_->Expect();
  if (std::exchange(flush_posted_, true)) return;
  asio::post(stream_->executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->Flush();
    self->Read();
  });
}

// True if all frames were sent (num_sent_bytes_) and there may be more.
bool Http2Connection::SendSome() {
  thread_local std::string frames;
  frames.clear();
  // Frames must be kept until they are written. If the budget is full, frames are made one at a
  // time, so that the connection makes progress and exceeds the budget by little.
  const size_t max_bytes = context_.memory.HasRoomFor(kWriteBytes) ? kWriteBytes : 1;
  session_.Send(max_bytes, Clock::now(), frames);
  if (frames.empty()) return false;
  num_sent_bytes_ = 0;
  if (!stream_->encrypted()) {
    error_code error;
    num_sent_bytes_ = stream_->WriteNow({asio::buffer(frames), {}}, error);
    if (error) {
      Close();
      return false;
    }
    if (num_sent_bytes_ == frames.size()) return true;
  }
  out_.assign(frames, num_sent_bytes_);
  num_sent_bytes_ = 0;
  held_.ResizeAnyway(out_.size());
  writing_ = true;
  wrote_at_ = Clock::now();
  num_untaken_bytes_ = stream_->num_untaken_bytes();
  WriteRest();
  return false;
}

void Http2Connection::WriteRest() {
  stream_->WriteSome({asio::buffer(out_) + num_sent_bytes_, {}},
                     [self = shared_from_this()](error_code error, size_t num_bytes) {
                       self->OnSent(error, num_bytes);
                     });
}

void Http2Connection::OnSent(error_code error, size_t num_bytes) {
  if (closed_) return;
  if (error) return Close();
  num_sent_bytes_ += num_bytes;
  wrote_at_ = Clock::now();
  if (num_sent_bytes_ < out_.size()) return WriteRest();
  ReleaseMemory(out_);
  held_.Resize(0);
  writing_ = false;
  Flush();
  Read();
}

std::chrono::nanoseconds Http2Connection::StallCheckInterval() const {
  const auto least = std::min(Nanoseconds(context_.limits.body_timeout),
                              Nanoseconds(context_.limits.write_timeout)) /
                     4;
  return std::clamp<std::chrono::nanoseconds>(least, kMinStallCheck, kMaxStallCheck);
}

Clock::time_point Http2Connection::NextDue(Clock::time_point now) const {
  const ConnectionLimits& limits = context_.limits;
  Clock::time_point due = Clock::time_point::max();
  const auto at = [&due](Clock::time_point time) { due = std::min(due, time); };
  if (header_since_ != Clock::time_point()) at(header_since_ + Nanoseconds(limits.header_timeout));
  if (session_.any_waiting()) at(std::max(stall_check_at_, now));
  if (writing_) {
    at(wrote_at_ + Nanoseconds(limits.write_timeout));
    return due;
  }
  if (session_.num_streams() == 0) {
    at(session_.any_request_yet() ? idle_since_ + Nanoseconds(limits.idle_timeout)
                                  : began_ + Nanoseconds(limits.header_timeout));
  }
  if (pinged_at_ == Clock::time_point()) {
    at(received_at_ + Nanoseconds(limits.keepalive_time));
  } else {
    at(pinged_at_ + Nanoseconds(limits.keepalive_timeout));
  }
  return due;
}

void Http2Connection::Rearm(Clock::time_point now) {
  if (!session_.any_waiting()) {
    stall_check_at_ = Clock::time_point();
  } else if (stall_check_at_ == Clock::time_point()) {
    stall_check_at_ = now + StallCheckInterval();
  }
  const Clock::time_point due = NextDue(now);
  if (due >= armed_for_) return;  // the timer fires early enough
  armed_for_ = due;
  deadline_.Set(std::max<std::chrono::nanoseconds>(due - now, std::chrono::nanoseconds(0)),
                weak_from_this());
}

void Http2Connection::OnDeadline() {
  if (closed_) return;
  if (lingering_) return Close();
  const Clock::time_point now = Clock::now();
  armed_for_ = Clock::time_point::max();
  if (IsOverdue(now)) return Close();
  const ConnectionLimits& limits = context_.limits;
  if (session_.any_waiting() && stall_check_at_ <= now) {
    session_.EndStalledStreams(
        {.body = Nanoseconds(limits.body_timeout), .write = Nanoseconds(limits.write_timeout)},
        now);
    stall_check_at_ = now + StallCheckInterval();
  }
  if (!writing_ && session_.num_streams() == 0 && IsIdleForTooLong(now)) session_.GoAway();
  if (!writing_ && pinged_at_ == Clock::time_point() &&
      now - received_at_ >= Nanoseconds(limits.keepalive_time)) {
    pinged_at_ = now;
    session_.Ping();
  }
  Flush();
}

bool Http2Connection::IsIdleForTooLong(Clock::time_point now) const {
  const ConnectionLimits& limits = context_.limits;
  return session_.any_request_yet() ? now - idle_since_ >= Nanoseconds(limits.idle_timeout)
                                    : now - began_ >= Nanoseconds(limits.header_timeout);
}

bool Http2Connection::IsOverdue(Clock::time_point now) {
  const ConnectionLimits& limits = context_.limits;
  const auto header_timeout = Nanoseconds(limits.header_timeout);
  if (header_since_ != Clock::time_point() && now - header_since_ >= header_timeout) return true;
  if (!writing_) {
    return pinged_at_ != Clock::time_point() &&
           now - pinged_at_ >= Nanoseconds(limits.keepalive_timeout);
  }
  if (now - wrote_at_ < Nanoseconds(limits.write_timeout)) return false;
  // The client may have read from the kernel's buffer although no write completed.
  const size_t num_untaken_bytes = stream_->num_untaken_bytes();
  if (num_untaken_bytes >= num_untaken_bytes_) return true;
  num_untaken_bytes_ = num_untaken_bytes;
  wrote_at_ = now;
  return false;
}

// Call before the client can see the close.
void Http2Connection::CountViolation() {
  if (!session_.ends_for_an_error() || std::exchange(violation_counted_, true)) return;
  context_.metrics.ended_for_violation->Increment();
}

void Http2Connection::Linger() {
  CountViolation();
  lingering_ = true;
  deadline_.Set(kLingerTimeout, weak_from_this());
  stream_->EndSending([self = shared_from_this()](error_code error) {
    if (error) self->Close();
  });
  Read();
}

void Http2Connection::Close() {
  if (std::exchange(closed_, true)) return;
  CountViolation();
  deadline_.Clear();
  held_.Resize(0);
  header_.Resize(0);
  stream_->Close();
}

}  // namespace

void ServeHttp2(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context) {
  std::make_shared<Http2Connection>(std::move(stream), context)->Start(received);
}

}  // namespace lockstep::router
