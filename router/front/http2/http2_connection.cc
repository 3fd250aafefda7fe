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

#include "common/runtime/release_memory.h"
#include "router/front/connection/deadline.h"
#include "router/front/connection/open_connections.h"
#include "router/front/http2/http2_session.h"
#include "router/front/http2/http2_timers.h"
#include "router/front/http2/ready_streams.h"
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
  void Rearm(Clock::time_point now);
  void OnDeadline();

  void CountViolation();
  void Linger();
  void Close();

  ConnectionContext& context_;
  const uint64_t id_;
  const std::unique_ptr<ConnectionStream> stream_;
  const ConnectionLimiter::AddressKey address_;
  const std::shared_ptr<ReadyStreams> ready_streams_;
  Http2Session session_;
  Http2Timers timers_;
  Deadline deadline_;
  Clock::time_point armed_for_ = Clock::time_point::max();
  std::vector<Http2Session::StreamId> ready_;

  std::string tls_buffer_;
  std::string out_;  // frames that the kernel did not take yet
  size_t num_sent_bytes_ = 0;
  ByteBudget::Share held_;    // counts out_
  ByteBudget::Share header_;  // counts the open header block
  bool reading_ = false;
  bool writing_ = false;
  bool flush_posted_ = false;
  bool draining_ = false;
  bool lingering_ = false;
  bool closed_ = false;
  bool violation_counted_ = false;
  size_t num_lingered_bytes_ = 0;
};

Http2Connection::Http2Connection(std::unique_ptr<ConnectionStream> stream,
                                 ConnectionContext& context)
    : context_(context),
      id_(context.next_connection_id.fetch_add(1)),
      stream_(std::move(stream)),
      address_(stream_->address()),
      // Posts a weak pointer, because the connection's destructor waits for a wake-up to return.
      ready_streams_(std::make_shared<ReadyStreams>([this] {
        asio::defer(stream_->executor(), [weak = weak_from_this()] {
          if (const std::shared_ptr<Http2Connection> alive = weak.lock()) alive->Flush();
        });
      })),
      session_(context.http2,
               [this](StreamRequest request, Http2Session::StreamId id) {
                 return Open(std::move(request), id);
               }),
      timers_(context.limits, session_, Clock::now()),
      deadline_(stream_->executor(), [this] { OnDeadline(); }),
      held_(context.memory),
      header_(&context.memory, &context.memory.strangers()) {}

Http2Connection::~Http2Connection() {
  ready_streams_->Detach();
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
  request.http2 = true;
  request.connection_runner = stream_->connection_runner();
  request.loopback_only = stream_->loopback_only();
  // While the server drains, connections should end. This stream is still answered, and so are
  // streams that the client has already sent.
  draining_ = draining_ || context_.draining();
  return context_.open_stream(std::move(request),
                              std::make_shared<StreamSignal>(ready_streams_, id));
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
  ready_streams_->Expect();
  if (!session_.Receive(bytes, now)) {
    spdlog::debug("connection {} ends: {}", id_, session_.violation());
    if (writing_) return Close();
  }
  timers_.OnReceived(now);
  // The tenant is not known before the header is complete.
  if (!header_.Resize(session_.num_header_block_bytes())) Close();
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
    more = ready_streams_->Take(ready_);
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
  Rearm(Clock::now());
}

void Http2Connection::FlushInNextTurn() {
  ready_streams_->Expect();
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
  timers_.OnWriteWaits(stream_->num_untaken_bytes(), Clock::now());
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
  timers_.OnProgress(Clock::now());
  if (num_sent_bytes_ < out_.size()) return WriteRest();
  ReleaseMemory(out_);
  held_.Resize(0);
  writing_ = false;
  timers_.OnWriteDone();
  Flush();
  Read();
}

void Http2Connection::Rearm(Clock::time_point now) {
  timers_.Update(now);
  const Clock::time_point due = timers_.NextDue(now);
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
  if (timers_.IsOverdue(stream_->num_untaken_bytes(), now)) return Close();
  if (timers_.TakeStallCheck(now)) session_.EndStalledStreams(timers_.stall_timeouts(), now);
  if (timers_.IsIdleForTooLong(now)) session_.GoAway();
  if (timers_.TakePing(now)) session_.Ping();
  Flush();
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
