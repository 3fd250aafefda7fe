#include "common/net/admin_server.h"

#include <prometheus/collectable.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <iterator>
#include <list>
#include <optional>
#include <utility>

#include "common/net/http_date.h"
#include "common/net/http_error.h"
#include "common/net/local_host.h"
#include "common/net/tcp_listener.h"
#include "common/runtime/logging.h"
#include "common/runtime/named_thread.h"
#include "common/runtime/process_metrics.h"
#include "common/status.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Response = http::response<http::string_body>;

constexpr uint32_t kMaxRequestHeaderBytes = 8 * 1024;
constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

struct Content {
  AdminPages pages;
  AdminServerLimits limits;
  bool loopback_only = false;
};

Response MakeResponse(http::status status, std::string body,
                      const char* content_type = kPlainText) {
  Response response(status, 11);
  response.set(http::field::content_type, content_type);
  response.body() = std::move(body);
  return response;
}

Response Reply(const HealthReport& report) {
  return MakeResponse(report.ok ? http::status::ok : http::status::service_unavailable,
                      EscapeControlCharacters(report.text) + "\n");
}

Response Answer(const AdminPages& pages, const http::request_header<>& request) {
  const std::string_view target(request.target().data(), request.target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  const bool is_status = path == "/status.json" && pages.status != nullptr;
  if (path != "/metrics" && path != "/healthz" && path != "/livez" && !is_status) {
    return MakeResponse(http::status::not_found,
                        pages.status == nullptr
                            ? "not found; there are /metrics, /healthz and /livez\n"
                            : "not found; there are /metrics, /healthz, /livez and /status.json\n");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Response response = MakeResponse(http::status::method_not_allowed, "only GET and HEAD\n");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  if (path == "/metrics") {
    return MakeResponse(http::status::ok, MetricsText(*pages.metrics), kPrometheusText);
  }
  if (is_status) return MakeResponse(http::status::ok, pages.status(), "application/json");
  if (path == "/healthz") return Reply(pages.health());
  return Reply(pages.liveness == nullptr ? HealthReport{true, "alive"} : pages.liveness());
}

bool HostIsAllowed(const http::request_header<>& request) {
  const auto [first, last] = request.equal_range(http::field::host);
  if (first == last) return true;  // every browser sends one
  const auto& value = first->value();
  return std::next(first) == last && NamesThisMachine({value.data(), value.size()});
}

class Connection;
// The connections that wait for a request, the longest wait first.
using WaitingConnections = std::list<Connection*>;

// One connection. Lives on the server's thread. The handlers of its pending operation keep it
// alive.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const Content& content, WaitingConnections& waiting,
             std::shared_ptr<void> place)
      : address_(AddressKeyOf(socket)),
        place_(std::move(place)),
        stream_(std::move(socket)),
        content_(content),
        waiting_(waiting) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { StopWaiting(); }

  const ConnectionLimiter::AddressKey& address() const { return address_; }

  // Closes the connection and frees its place at once. It must be waiting.
  void MakeRoom() {
    StopWaiting();
    stream_.close();
    place_ = nullptr;
  }

  void ReadRequest() {
    self_among_waiting_ = waiting_.insert(waiting_.end(), this);
    parser_.emplace();
    parser_->header_limit(kMaxRequestHeaderBytes);
    ArmTimeout();
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
  }

 private:
  void ArmTimeout() {
    stream_.expires_after(absl::ToChronoNanoseconds(content_.limits.io_timeout));
  }

  void StopWaiting() {
    if (!self_among_waiting_.has_value()) return;
    waiting_.erase(*self_among_waiting_);
    self_among_waiting_.reset();
  }

  void OnHeader(error_code error) {
    StopWaiting();
    if (error == http::error::header_limit) {
      return Write(
          MakeResponse(http::status::request_header_fields_too_large, "header too large\n"), false);
    }
    if (IsMalformedHttp(error)) {
      return Write(MakeResponse(http::status::bad_request, "not an HTTP/1.1 request\n"), false);
    }
    if (error) return;  // gone, or too slow
    if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
      return Write(
          MakeResponse(http::status::payload_too_large, "a request must not have a body\n"), false);
    }
    if (content_.loopback_only && !HostIsAllowed(parser_->get())) {
      return Write(MakeResponse(http::status::forbidden,
                                "Host: expected localhost or a number at a loopback address\n"),
                   false);
    }
    Write(Answer(content_.pages, parser_->get()), parser_->keep_alive(),
          /*head_only=*/parser_->get().method() == http::verb::head);
  }

  void Write(Response response, bool keep_alive, bool head_only = false) {
    response_ = std::move(response);
    const std::string_view date = HttpDate();
    response_.set(http::field::date, beast::string_view(date.data(), date.size()));
    response_.keep_alive(keep_alive);
    response_.prepare_payload();
    if (head_only) response_.body().clear();
    ArmTimeout();
    http::async_write(stream_, response_, [self = shared_from_this()](error_code error, size_t) {
      if (!error && self->response_.keep_alive()) return self->ReadRequest();
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  const ConnectionLimiter::AddressKey address_;
  std::shared_ptr<void> place_;  // until the socket is closed
  beast::tcp_stream stream_;
  const Content& content_;
  WaitingConnections& waiting_;
  std::optional<WaitingConnections::iterator> self_among_waiting_;
  beast::flat_buffer buffer_{2 * kMaxRequestHeaderBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
};

}  // namespace

class AdminServer::Impl {
 public:
  explicit Impl(Content content)
      : content_(std::move(content)),
        limiter_(std::make_shared<ConnectionLimiter>(content_.limits.max_connections,
                                                     content_.limits.max_connections_per_address)),
        listener_(io_, [this](tcp::socket socket) { Serve(std::move(socket)); }) {}
  ~Impl() { io_.stop(); }  // the thread joins; connections are destroyed with io_

  absl::StatusOr<uint16_t> Listen(const Address& address) { return listener_.Listen(address); }
  void Run() {
    listener_.Accept();
    thread_ = NamedThread("admin", [this] { io_.run(); });
  }

 private:
  void Serve(tcp::socket socket) {
    const ConnectionLimiter::AddressKey address = AddressKeyOf(socket);
    auto [verdict, place] = limiter_->Admit(address);
    if (place == nullptr && MakeRoom(verdict, address)) {
      place = limiter_->Admit(address).second;
    }
    if (place == nullptr) return;
    std::make_shared<Connection>(std::move(socket), content_, waiting_, std::move(place))
        ->ReadRequest();
  }

  // Closes a waiting connection. Otherwise silent connections would keep probes out.
  bool MakeRoom(ConnectionLimiter::Verdict verdict, const ConnectionLimiter::AddressKey& address) {
    const bool of_address = verdict == ConnectionLimiter::Verdict::kTooManyOfAddress;
    const auto found = std::ranges::find_if(waiting_, [&](const Connection* waiting) {
      return !of_address || waiting->address() == address;
    });
    if (found == waiting_.end()) return false;
    (*found)->MakeRoom();
    return true;
  }

  // Connections refer to it, so it is destroyed last.
  const Content content_;
  const std::shared_ptr<ConnectionLimiter> limiter_;
  WaitingConnections waiting_;
  asio::io_context io_{1};
  TcpListener listener_;
  NamedThread thread_;
};

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                                AdminPages pages,
                                                                AdminServerLimits limits) {
  LOCKSTEP_ASSIGN_OR_RETURN(Address parsed, ParseAddress(address));
  auto impl = std::make_unique<Impl>(
      Content{.pages = std::move(pages), .limits = limits, .loopback_only = IsLoopback(parsed)});
  LOCKSTEP_ASSIGN_OR_RETURN(parsed.port, impl->Listen(parsed));
  impl->Run();
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(parsed), std::move(impl)));
}

AdminServer::AdminServer(Address address, std::unique_ptr<Impl> impl)
    : address_(std::move(address)), impl_(std::move(impl)) {}

AdminServer::~AdminServer() = default;

}  // namespace lockstep
