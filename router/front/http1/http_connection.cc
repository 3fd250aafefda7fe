#include "router/front/http1/http_connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"
#include "router/front/connection/connection_stream.h"
#include "router/front/connection/deadline.h"
#include "router/front/http1/request_reader.h"
#include "router/front/http1/response_head.h"
#include "router/front/http1/unsent_bytes.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Bytes that a client may send before its current answer is finished.
constexpr size_t kMaxAheadBytes = 8 << 10;
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
  // The handlers' reference to the connection. Outlives it.
  class Signal;
  enum class Phase { kIdle, kReading, kAnswering, kLingering, kClosed };

  // --- reading: one read is pending in every phase but kClosed ---
  void AwaitRequest(absl::Duration timeout);
  void Read();
  void OnRead(error_code error);
  void Advance();
  void AwaitBody();

  // --- answering ---
  void Open();
  void EndBody();
  void Refuse(const RequestReader::Refusal& refusal);
  void BeginAnswer();
  void BeginLastAnswer();
  void Pump();
  void Frame(StreamHandler::Output output);
  bool Send();
  void SendRest();
  void OnSent(error_code error, size_t num_bytes);
  void OnAllSent();
  void EndAnswer();
  void CloseHandler();

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

  std::shared_ptr<StreamHandler> handler_;  // null: no request has begun
  bool has_body_ = false;                   // the request
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;  // the answer is sent in chunks
  bool last_ = false;     // what is being sent ends the answer
  bool sending_ = false;
  bool sending_continue_ = false;  // what is being sent is "100 Continue"
  UnsentBytes unsent_;
  size_t num_untaken_bytes_ = 0;  // unacknowledged when the deadline was set
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
  CloseHandler();
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
    case RequestReader::State::kOpens:
      return Open();
    case RequestReader::State::kBody:
      Pump();
      if (phase_ != Phase::kReading) return;
      AwaitBody();
      if (phase_ != Phase::kReading) return;
      return Read();
    case RequestReader::State::kRequest:
      return EndBody();
    case RequestReader::State::kRefused:
      return Refuse(reader_.refusal());
  }
}

void Connection::AwaitBody() {
  if (std::exchange(body_begun_, true)) return;
  SetDeadline(context_.limits.body_timeout);
  // HTTP/1.0 has no such answer.
  if (http_1_0_ || !handler_->AwaitsContinue()) return;
  unsent_.Set(kContinue, {});
  sending_continue_ = true;
  if (Send()) OnAllSent();
}

void Connection::Open() {
  phase_ = Phase::kReading;
  RequestReader::Request request = reader_.Take();
  request.header.connection_runner = stream_->connection_runner();
  request.header.loopback_only = stream_->loopback_only();
  has_body_ = !request.header.ends;
  keep_alive_ = request.keep_alive;
  http_1_0_ = request.http_1_0;
  handler_ = context_.open_stream(std::move(request.header), signal_);
  reader_.PassBodyTo(*handler_);
  if (has_body_) Pump();
  if (phase_ == Phase::kReading) Advance();
}

void Connection::EndBody() {
  if (has_body_) Pump();
  if (phase_ != Phase::kReading) return;
  reader_.StartNext();
  BeginAnswer();
  handler_->OnBodyEnd();
  Read();
}

// The rest of the bytes cannot be read, so this answer is the last.
void Connection::Refuse(const RequestReader::Refusal& refusal) {
  CloseHandler();
  http_1_0_ = false;
  StreamRequest request{.loopback_only = stream_->loopback_only(),
                        .refusal = StreamRequest::Refusal{.http_status = refusal.http_status,
                                                          .message = refusal.message}};
  if (refusal.head_only) request.fields.Add(":method", "HEAD");
  handler_ = context_.open_stream(std::move(request), signal_);
  BeginLastAnswer();
}

void Connection::BeginAnswer() {
  deadline_.Clear();
  phase_ = Phase::kAnswering;
}

void Connection::BeginLastAnswer() {
  // Otherwise a long rest of the body would close the connection before the answer is sent.
  discarding_ = true;
  keep_alive_ = false;
  BeginAnswer();
  Read();
}

// Sends all available output, as long as the kernel takes it at once.
void Connection::Pump() {
  while (handler_ != nullptr && (phase_ == Phase::kReading || phase_ == Phase::kAnswering)) {
    if (sending_) return LimitWrite();
    StreamHandler::Output output = handler_->Take();
    if (output.empty()) return;
    // An answer before the end of the body is the last: the rest of the body stays unread.
    if (phase_ == Phase::kReading) BeginLastAnswer();
    Frame(std::move(output));
    if (!Send()) return;
    OnAllSent();
  }
}

void Connection::Frame(StreamHandler::Output output) {
  last_ = output.last;
  unsent_.Set({}, std::move(output.body));
  if (output.head.has_value()) {
    chunked_ = !last_ && !http_1_0_;
    const bool has_end = chunked_ || !output.head->Find("content-length").empty();
    // While the server drains, connections close after their current answer.
    keep_alive_ = keep_alive_ && has_end && !context_.draining();
    AppendResponseHead(*output.head, {.keep_alive = keep_alive_, .chunked = chunked_},
                       unsent_.head());
  }
  if (chunked_) AppendChunkFrame(last_, unsent_.head(), unsent_.body());
}

// True if the kernel took everything. Otherwise OnSent sends the rest.
bool Connection::Send() {
  unsent_.Begin();
  sending_ = true;
  error_code error;
  const size_t num_bytes = stream_->encrypted() ? 0 : stream_->WriteNow(unsent_.Rest(), error);
  if (error) {
    Close();
    return false;
  }
  if (unsent_.Advance(num_bytes)) return true;
  LimitWrite();
  SendRest();
  return false;
}

void Connection::SendRest() {
  stream_->WriteSome(unsent_.Rest(), [self = shared_from_this()](error_code error, size_t count) {
    self->OnSent(error, count);
  });
}

void Connection::OnSent(error_code error, size_t num_bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  if (unsent_.Advance(num_bytes)) {
    OnAllSent();
    return Pump();
  }
  if (num_bytes > 0 && phase_ == Phase::kAnswering) {
    deadline_.Clear();
    LimitWrite();
  }
  SendRest();
}

void Connection::OnAllSent() {
  sending_ = false;
  if (std::exchange(sending_continue_, false)) return;
  deadline_.Clear();
  if (last_) return EndAnswer();
  handler_->OnWritten();
}

void Connection::EndAnswer() {
  CloseHandler();
  last_ = false;
  unsent_.Release();
  if (!keep_alive_) return Linger();
  AwaitRequest(context_.limits.idle_timeout);
}

void Connection::CloseHandler() {
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnClosed();
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
  stream_->Close();
  CloseHandler();
}

}  // namespace

void ServeHttp1(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context) {
  std::make_shared<Connection>(std::move(stream), context)->Start(received);
}

}  // namespace lockstep::router
