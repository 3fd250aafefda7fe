#include "router/http/http_connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "router/api/field_checks.h"
#include "router/http/openai_error.h"
#include "router/http/response_head.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kReadBytes = 4 << 10;
// What a client may send ahead of its answer.
constexpr size_t kMaxAheadBytes = 8 << 10;
constexpr size_t kMaxRequestIdBytes = 256;
// For a refused client to read why, while what it still sends is thrown away.
constexpr auto kLingerTimeout = std::chrono::seconds(2);
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view View(boost::string_view text) { return {text.data(), text.size()}; }

// One connection. Everything runs on the strand of its socket; whoever is outside posts to it. Kept
// alive by the handlers of its pending operations: at least one is pending until Close.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ConnectionContext& context);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From the acceptor's thread.
  void PostStart() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Start(); });
  }

 private:
  // What exchanges know of the connection. Outlives it.
  class Signal;
  enum class Phase { kIdle, kReading, kAnswering, kLingering, kClosed };

  void Start();

  // --- reading ---
  void AwaitRequest(absl::Duration timeout);
  void ReadAhead();
  void OnAhead(error_code error, size_t size);
  void ReadHeader();
  void OnHeader(error_code error);
  void ReadBody();
  void OnBody(error_code error);
  bool ReserveBody();
  void ReleaseBody(size_t all_but_bytes = 0);
  void RefuseUnread(error_code error);

  // --- answering ---
  void HandleRequest();
  void Refuse(int http_status, std::string_view message);
  void Pump();
  void LimitWrite();
  void OnWritten(error_code error, bool last);
  void EndAnswer();

  void SetTimer(std::chrono::steady_clock::duration timeout);
  void SetTimer(absl::Duration timeout) { SetTimer(absl::ToChronoNanoseconds(timeout)); }
  void StopTimer() { timer_.cancel(); }
  void Linger();
  void Close();

  ConnectionContext& context_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::shared_ptr<Signal> signal_;
  Phase phase_ = Phase::kIdle;
  beast::flat_buffer buffer_{kMaxHeaderBytes + kMaxAheadBytes};
  std::optional<Parser> parser_;
  bool reading_ahead_ = false;  // an operation of ReadAhead is pending
  bool discarding_ = false;     // what comes is of a request that was refused
  size_t reserved_body_bytes_ = 0;

  std::shared_ptr<Exchange> exchange_;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;    // the answer
  bool head_only_ = false;  // the same
  bool writing_ = false;
  bool write_limited_ = false;  // the timer is that of the write
  std::string head_;            // being written, as body_
  std::string body_;
};

class Connection::Signal final : public OutputSignal {
 public:
  explicit Signal(Connection* connection) : connection_(connection) {}

  void OnOutput() override { Post(&Connection::Pump); }
  void CutOff() override { Post(&Connection::Close); }
  void Detach() {
    MutexLock lock(mutex_);
    connection_ = nullptr;
  }

 private:
  // Under the lock, so that the connection, and with it its server, is there for as long.
  void Post(void (Connection::*method)()) {
    MutexLock lock(mutex_);
    if (connection_ == nullptr) return;
    if (std::shared_ptr<Connection> alive = connection_->weak_from_this().lock()) {
      tcp::socket& socket = alive->socket_;
      asio::post(socket.get_executor(), [alive = std::move(alive), method] { (*alive.*method)(); });
    }
  }

  Mutex mutex_;
  Connection* connection_ ABSL_GUARDED_BY(mutex_);
};

Connection::Connection(tcp::socket socket, ConnectionContext& context)
    : context_(context),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      signal_(std::make_shared<Signal>(this)) {
  context_.num_connections.fetch_add(1);
}

Connection::~Connection() {
  signal_->Detach();
  ReleaseBody();
  if (exchange_ != nullptr) exchange_->Abandon();
  context_.num_connections.fetch_sub(1);
}

void Connection::Start() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  AwaitRequest(context_.header_timeout);
}

void Connection::AwaitRequest(absl::Duration timeout) {
  phase_ = Phase::kIdle;
  SetTimer(timeout);
  if (!reading_ahead_) return buffer_.size() > 0 ? ReadHeader() : ReadAhead();
  // Of two reads at a time each would get a part.
  if (error_code ignored; buffer_.size() > 0) socket_.cancel(ignored);
}

// Notices the end of a client while its answer is made, and waits for its next request after.
void Connection::ReadAhead() {
  if (discarding_) buffer_.clear();
  if (buffer_.size() > kMaxAheadBytes) return Close();
  reading_ahead_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](error_code error, size_t size) { self->OnAhead(error, size); });
}

void Connection::OnAhead(error_code error, size_t size) {
  reading_ahead_ = false;
  buffer_.commit(size);
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kLingering) buffer_.clear();
  if (phase_ == Phase::kIdle && buffer_.size() > 0) return ReadHeader();
  if (error) return Close();
  ReadAhead();
}

void Connection::ReadHeader() {
  phase_ = Phase::kReading;
  SetTimer(context_.header_timeout);
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(context_.max_body_bytes);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(error_code error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return RefuseUnread(error);
  keep_alive_ = parser_->keep_alive();
  http_1_0_ = parser_->get().version() < 11;
  // Who stands before this server might find the end of such a body elsewhere.
  const bool has_coding = parser_->get().count(http::field::transfer_encoding) > 0;
  if (has_coding && (http_1_0_ || !parser_->chunked())) {
    keep_alive_ = false;
    return Refuse(400, "of transfer encodings, chunked alone is taken, in HTTP/1.1");
  }
  if (parser_->is_done()) return HandleRequest();
  if (!ReserveBody()) {
    keep_alive_ = false;
    return Refuse(503, "too many bytes of other requests are in transit");
  }
  SetTimer(context_.body_timeout);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
  asio::async_write(socket_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                    [self = shared_from_this()](error_code failed, size_t) {
                      failed ? self->Close() : self->ReadBody();
                    });
}

void Connection::ReadBody() {
  if (phase_ == Phase::kClosed) return;
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(error_code error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return RefuseUnread(error);
  HandleRequest();
}

// The body's bytes are counted before there is room for them.
bool Connection::ReserveBody() {
  const auto announced = parser_->content_length();
  const size_t size = announced ? static_cast<size_t>(*announced) : context_.max_body_bytes;
  if (context_.body_memory_bytes.fetch_add(size) + size > context_.max_body_memory_bytes) {
    context_.body_memory_bytes.fetch_sub(size);
    return false;
  }
  reserved_body_bytes_ = size;
  return true;
}

void Connection::ReleaseBody(size_t all_but_bytes) {
  if (reserved_body_bytes_ <= all_but_bytes) return;
  context_.body_memory_bytes.fetch_sub(reserved_body_bytes_ - all_but_bytes);
  reserved_body_bytes_ = all_but_bytes;
}

// What came is no request, or one that is not read.
void Connection::RefuseUnread(error_code error) {
  keep_alive_ = false;
  if (error == http::error::header_limit) return Refuse(431, "the header is too large");
  if (error == http::error::body_limit) {
    return Refuse(413, fmt::format("the body is too large, at most {} bytes are read",
                                   context_.max_body_bytes));
  }
  const bool malformed =
      error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message;
  if (malformed) return Refuse(400, "this is no HTTP/1.1 request");
  Close();
}

void Connection::HandleRequest() {
  StopTimer();
  phase_ = Phase::kAnswering;
  http::request<http::string_body> message = parser_->release();
  head_only_ = message.method() == http::verb::head;
  parser_.reset();
  ReleaseBody(message.body().size());  // one in chunks had said nothing of its size
  const std::string_view target = View(message.target());
  const std::string_view id = View(message["x-request-id"]);
  const bool usable_id = CheckId("x-request-id", id, kMaxRequestIdBytes).ok();
  HttpRequest request{.method = std::string(View(message.method_string())),
                      .path = std::string(target.substr(0, target.find('?'))),
                      .body = std::move(message.body()),
                      .request_id = std::string(usable_id ? id : std::string_view())};
  exchange_ = context_.gateway.Handle(std::move(request), signal_);
  if (!reading_ahead_) ReadAhead();
}

// An answer of the connection's own, after which it ends.
void Connection::Refuse(int http_status, std::string_view message) {
  StopTimer();
  phase_ = Phase::kAnswering;
  discarding_ =
      true;  // or the rest of the body would close the connection before the answer is out
  const OpenAiError error{.http_status = http_status,
                          .type = http_status >= 500 ? "server_error" : "invalid_request_error",
                          .code = {},
                          .param = {},
                          .message = std::string(message)};
  std::string body;
  error.AppendJson(body);
  const auto reply = std::make_shared<ReplyExchange>(signal_);
  HttpHead head{.status = http_status};
  if (http_status == 503) head.headers.emplace_back("Retry-After", "1");
  reply->Reply(std::move(head), std::move(body));
  exchange_ = reply;
  if (!reading_ahead_) ReadAhead();
}

void Connection::Pump() {
  if (phase_ != Phase::kAnswering || exchange_ == nullptr) return;
  if (writing_) return LimitWrite();
  Exchange::Output output = exchange_->Take();
  if (output.empty()) return;
  body_ = std::move(output.body);
  head_.clear();
  if (output.head.has_value()) {
    // On the way out no new requests are wanted on old connections.
    keep_alive_ = keep_alive_ && !context_.gateway.context().engine.draining();
    chunked_ = !output.last && !http_1_0_;
    keep_alive_ = keep_alive_ && (output.last || chunked_);
    AppendResponseHead(*output.head,
                       {.keep_alive = keep_alive_,
                        .chunked = chunked_,
                        .content_length = output.last ? std::optional(body_.size()) : std::nullopt},
                       head_);
    if (head_only_) body_.clear();
  }
  if (chunked_) AppendChunkFrame(output.last, head_, body_);
  writing_ = true;
  if (output.last) LimitWrite();
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head_), asio::buffer(body_)};
  asio::async_write(socket_, buffers,
                    [self = shared_from_this(), last = output.last](error_code error, size_t) {
                      self->OnWritten(error, last);
                    });
}

// A write that keeps nothing waiting needs no timer: most of a stream's end at once.
void Connection::LimitWrite() {
  if (std::exchange(write_limited_, true)) return;
  SetTimer(context_.write_timeout);
}

void Connection::OnWritten(error_code error, bool last) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (std::exchange(write_limited_, false)) StopTimer();
  if (error) return Close();
  if (last) return EndAnswer();
  exchange_->OnWritten();
  Pump();
}

void Connection::EndAnswer() {
  exchange_.reset();
  body_.clear();
  body_.shrink_to_fit();
  ReleaseBody();
  if (!keep_alive_) return Linger();
  AwaitRequest(context_.idle_timeout);
}

void Connection::SetTimer(std::chrono::steady_clock::duration timeout) {
  timer_.expires_after(timeout);
  timer_.async_wait([weak = weak_from_this()](error_code error) {
    if (error) return;
    if (const std::shared_ptr<Connection> self = weak.lock()) {
      // A handler that was on its way when the timer was set anew changes nothing.
      if (self->timer_.expiry() <= std::chrono::steady_clock::now()) self->Close();
    }
  });
}

void Connection::Linger() {
  phase_ = Phase::kLingering;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  SetTimer(kLingerTimeout);
  buffer_.clear();
  if (!reading_ahead_) ReadAhead();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  StopTimer();
  ReleaseBody();
  error_code ignored;
  socket_.close(ignored);
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->Abandon();
}

}  // namespace

void ServeConnection(tcp::socket socket, ConnectionContext& context) {
  const auto connection = std::make_shared<Connection>(std::move(socket), context);
  connection->PostStart();
}

}  // namespace lockstep::router
