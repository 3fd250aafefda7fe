#include "router/front/http1/http_connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"
#include "common/runtime/release_memory.h"
#include "router/front/connection/connection_stream.h"
#include "router/front/connection/deadline.h"
#include "router/front/http1/request_reader.h"
#include "router/front/http1/response_head.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Bytes that a client may send before its current answer is finished.
constexpr size_t kMaxAheadBytes = 8 << 10;
// Up to this size, copying is cheaper than a second buffer. In TLS each buffer is its own record.
constexpr size_t kMaxJoinedBytes = 16 << 10;
// A refused client has this long to read why. Further bytes from it are dropped.
constexpr absl::Duration kLingerTimeout = absl::Seconds(2);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// One connection. Runs on the strand of its socket; other threads post to it. The handlers of its
// pending operations keep it alive, and at least one is pending until Close.
class Connection final : public OpenConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<ConnectionStream> stream, ConnectionContext& context);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start(std::string_view received);
  void Finish() override;

 private:
  // The exchanges' reference to the connection. Outlives it.
  class Signal;
  enum class Phase { kIdle, kReading, kAnswering, kLingering, kClosed };

  // --- reading: one read is pending in every phase but kClosed ---
  void AwaitRequest(absl::Duration timeout);
  void Read();
  void OnRead(error_code error);
  void Advance();
  void AwaitBody();

  // --- answering ---
  void HandleHeader();
  void HandleRequest();
  void Refuse(const RequestReader::Refusal& refusal);
  void BeginAnswer(std::string path);
  void BeginLastAnswer(std::string path, std::shared_ptr<Exchange> exchange);
  void Pump();
  void FrameHead(const HttpHead& head, bool last);
  bool Send();
  void OnSent(error_code error, size_t num_bytes);
  void OnAllSent();
  void EndAnswer();
  void EndExchange();

  // --- time ---
  void SetDeadline(absl::Duration timeout) {
    deadline_.Set(absl::ToChronoNanoseconds(timeout), weak_from_this());
  }
  void LimitWrite();
  void OnDeadline();

  void Linger();
  void Close();

  ConnectionContext& context_;
  const std::unique_ptr<ConnectionStream> stream_;
  Deadline deadline_;
  const std::shared_ptr<Signal> signal_;
  Phase phase_ = Phase::kIdle;
  RequestReader reader_;
  bool reading_ = false;          // a read is pending
  bool discarding_ = false;       // drop what is read
  bool body_begun_ = false;       // body_timeout is running
  std::array<char, 4096> ahead_;  // read while an answer is made

  std::shared_ptr<Exchange> exchange_;
  std::string path_;     // of the request; empty: no request was read
  int http_status_ = 0;  // of the answer; 0: no head was taken yet
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;    // the answer is sent in chunks
  bool head_only_ = false;  // the same
  bool last_ = false;       // what is being sent ends the answer
  bool sending_ = false;
  size_t num_sent_bytes_ = 0;     // of head_ and body_
  size_t num_untaken_bytes_ = 0;  // unacknowledged when the deadline was set
  std::string head_;              // being sent, before body_
  std::string body_;
};

class Connection::Signal final : public OutputSignal {
 public:
  explicit Signal(Connection* connection) : connection_(connection) {}

  // The lock keeps the connection and its executor alive during the post. The posted handler holds
  // only a weak pointer: when the server ends, Asio destroys the handler at once, and if that
  // destroyed the connection, its destructor would wait for this lock.
  void OnOutput() override {
    MutexLock lock(mutex_);
    if (connection_ == nullptr) return;
    asio::post(connection_->stream_->executor(), [weak = connection_->weak_from_this()] {
      if (const std::shared_ptr<Connection> alive = weak.lock()) alive->Pump();
    });
  }
  void Detach() {
    MutexLock lock(mutex_);
    connection_ = nullptr;
  }

 private:
  Mutex mutex_;
  Connection* connection_ ABSL_GUARDED_BY(mutex_);
};

Connection::Connection(std::unique_ptr<ConnectionStream> stream, ConnectionContext& context)
    : context_(context),
      stream_(std::move(stream)),
      deadline_(stream_->executor(), [this] { OnDeadline(); }),
      signal_(std::make_shared<Signal>(this)),
      reader_(context.limits.max_body_bytes, context.memory) {}

Connection::~Connection() {
  signal_->Detach();
  EndExchange();
  context_.open.Remove(this);
}

void Connection::Start(std::string_view received) {
  context_.open.Add(shared_from_this());
  reader_.Append(asio::buffer(received));
  AwaitRequest(context_.limits.header_timeout);
}

void Connection::Finish() {
  asio::post(stream_->executor(), [weak = weak_from_this()] {
    const std::shared_ptr<Connection> self = weak.lock();
    if (self == nullptr) return;
    self->keep_alive_ = false;
    if (self->phase_ == Phase::kIdle || self->phase_ == Phase::kReading) self->Close();
  });
}

void Connection::AwaitRequest(absl::Duration timeout) {
  phase_ = Phase::kIdle;
  body_begun_ = false;
  SetDeadline(timeout);
  Advance();
}

// While an answer is made, a pending read notices that the client has left.
void Connection::Read() {
  if (std::exchange(reading_, true)) return;
  // While an answer is made, read into ahead_: the reader may move on to the next request before
  // this read completes.
  const bool direct = phase_ == Phase::kIdle || phase_ == Phase::kReading;
  stream_->ReadSome(direct ? reader_.Prepare() : asio::buffer(ahead_),
                    [self = shared_from_this(), direct](error_code error, size_t num_bytes) {
                      self->reading_ = false;
                      if (direct) {
                        self->reader_.Commit(num_bytes);
                      } else if (!self->discarding_) {
                        self->reader_.Append(asio::buffer(self->ahead_.data(), num_bytes));
                      }
                      self->OnRead(error);
                    });
}

void Connection::OnRead(error_code error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  if (phase_ == Phase::kIdle || phase_ == Phase::kReading) return Advance();
  if (!discarding_ && reader_.num_unread_bytes() > kMaxAheadBytes) return Close();
  Read();
}

void Connection::Advance() {
  switch (reader_.Advance()) {
    case RequestReader::State::kNothing:
      return Read();
    case RequestReader::State::kHeader:
      if (phase_ == Phase::kIdle) SetDeadline(context_.limits.header_timeout);
      phase_ = Phase::kReading;
      return Read();
    case RequestReader::State::kBodyFollows:
      return HandleHeader();
    case RequestReader::State::kBody:
      phase_ = Phase::kReading;
      AwaitBody();
      return Read();
    case RequestReader::State::kRequest:
      return HandleRequest();
    case RequestReader::State::kRefused:
      return Refuse(reader_.refusal());
  }
}

void Connection::AwaitBody() {
  if (std::exchange(body_begun_, true)) return;
  SetDeadline(context_.limits.body_timeout);
  if (!reader_.TakeExpectContinue()) return;
  head_ = kContinue;
  if (Send()) OnAllSent();
}

// If the header alone is refused, the client gets no "100 Continue" and its body stays unread.
void Connection::HandleHeader() {
  RequestReader::Request request = reader_.Header();
  request.http.body_share = &reader_.share();
  request.http.loopback_only = stream_->loopback_only();
  std::string path = request.http.path;
  std::shared_ptr<Exchange> refusal = context_.handle(std::move(request.http), signal_);
  if (refusal == nullptr) return Advance();
  http_1_0_ = request.http_1_0;
  head_only_ = request.head_only;
  BeginLastAnswer(std::move(path), std::move(refusal));
}

void Connection::HandleRequest() {
  RequestReader::Request request = reader_.Take();
  request.http.home = stream_->home();
  request.http.loopback_only = stream_->loopback_only();
  keep_alive_ = request.keep_alive;
  http_1_0_ = request.http_1_0;
  head_only_ = request.head_only;
  BeginAnswer(request.http.path);
  exchange_ = context_.handle(std::move(request.http), signal_);
  Read();
}

// Sends an answer of the connection's own and then closes.
void Connection::Refuse(const RequestReader::Refusal& refusal) {
  http_1_0_ = false;
  head_only_ = refusal.head_only;
  BeginLastAnswer({}, context_.refuse(refusal.http_status, refusal.message, signal_));
}

void Connection::BeginAnswer(std::string path) {
  deadline_.Clear();
  phase_ = Phase::kAnswering;
  path_ = std::move(path);
  http_status_ = 0;
  context_.metrics.requests_in_flight->Increment();
}

void Connection::BeginLastAnswer(std::string path, std::shared_ptr<Exchange> exchange) {
  // Otherwise a long rest of the body would close the connection before the answer is sent.
  discarding_ = true;
  keep_alive_ = false;
  BeginAnswer(std::move(path));
  exchange_ = std::move(exchange);
  Read();
}

// Sends all available output, as long as the kernel takes it at once.
void Connection::Pump() {
  while (phase_ == Phase::kAnswering && exchange_ != nullptr) {
    if (sending_) return LimitWrite();
    Exchange::Output output = exchange_->Take();
    if (output.empty()) return;
    body_ = std::move(output.body);
    head_.clear();
    last_ = output.last;
    if (output.head.has_value()) FrameHead(*output.head, output.last);
    if (chunked_) AppendChunkFrame(output.last, head_, body_);
    if (!Send()) return;
    OnAllSent();
  }
}

void Connection::FrameHead(const HttpHead& head, bool last) {
  // While the server drains, connections close after their current answer.
  keep_alive_ = keep_alive_ && !context_.draining();
  chunked_ = !last && !http_1_0_;
  keep_alive_ = keep_alive_ && (last || chunked_);
  http_status_ = head.status;
  AppendResponseHead(head,
                     {.keep_alive = keep_alive_,
                      .chunked = chunked_,
                      .content_length = last ? std::optional(body_.size()) : std::nullopt},
                     head_);
  if (head_only_) body_.clear();
}

// True if the kernel took everything. Otherwise OnSent sends the rest.
bool Connection::Send() {
  if (body_.size() <= kMaxJoinedBytes) {
    head_ += body_;
    body_.clear();
  }
  num_sent_bytes_ = 0;
  sending_ = true;
  if (!stream_->encrypted()) {
    error_code error;
    num_sent_bytes_ = stream_->WriteNow({asio::buffer(head_), asio::buffer(body_)}, error);
    if (error) {
      Close();
      return false;
    }
    if (num_sent_bytes_ == head_.size() + body_.size()) return true;
  }
  LimitWrite();
  OnSent({}, 0);
  return false;
}

void Connection::OnSent(error_code error, size_t num_bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  num_sent_bytes_ += num_bytes;
  if (num_sent_bytes_ == head_.size() + body_.size()) {
    OnAllSent();
    return Pump();
  }
  if (num_bytes > 0 && phase_ == Phase::kAnswering) {
    deadline_.Clear();
    LimitWrite();
  }
  const size_t of_head = std::min(num_sent_bytes_, head_.size());
  ConnectionStream::Buffers rest = {asio::buffer(head_) + of_head,
                                    asio::buffer(body_) + (num_sent_bytes_ - of_head)};
  if (rest[0].size() == 0) std::swap(rest[0], rest[1]);
  stream_->WriteSome(rest, [self = shared_from_this()](error_code failed, size_t count) {
    self->OnSent(failed, count);
  });
}

void Connection::OnAllSent() {
  sending_ = false;
  if (phase_ != Phase::kAnswering) return;  // that was "100 Continue"
  deadline_.Clear();
  if (last_) return EndAnswer();
  exchange_->OnWritten();
}

void Connection::EndAnswer() {
  EndExchange();
  last_ = false;
  ReleaseMemory(head_);
  ReleaseMemory(body_);
  reader_.Release();
  if (!keep_alive_) return Linger();
  AwaitRequest(context_.limits.idle_timeout);
}

void Connection::EndExchange() {
  if (exchange_ == nullptr) return;
  constexpr int kClientLeft = 499;
  context_.metrics.CountRequest(path_, http_status_ == 0 ? kClientLeft : http_status_);
  context_.metrics.requests_in_flight->Decrement();
  std::exchange(exchange_, nullptr)->Abandon();
}

// Starts the write deadline while output waits for the client. OnSent restarts it after progress.
void Connection::LimitWrite() {
  if (phase_ != Phase::kAnswering || deadline_.is_set()) return;
  num_untaken_bytes_ = stream_->num_untaken_bytes();
  SetDeadline(context_.limits.write_timeout);
}

void Connection::OnDeadline() {
  const bool slow_reader = phase_ == Phase::kAnswering && sending_;
  // The client may have read some of the kernel's buffer without making enough room for a write.
  if (slow_reader && stream_->num_untaken_bytes() < num_untaken_bytes_) return LimitWrite();
  Close();
}

void Connection::Linger() {
  phase_ = Phase::kLingering;
  discarding_ = true;
  SetDeadline(kLingerTimeout);
  stream_->EndSending([self = shared_from_this()](error_code error) {
    if (error) self->Close();
  });
  Read();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  deadline_.Clear();
  reader_.Release();
  stream_->Close();
  EndExchange();
}

}  // namespace

void ServeHttp1(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context) {
  std::make_shared<Connection>(std::move(stream), context)->Start(received);
}

}  // namespace lockstep::router
