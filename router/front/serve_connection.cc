#include "router/front/serve_connection.h"

#include <array>
#include <boost/asio/post.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "router/front/connection/connection_stream.h"
#include "router/front/connection/deadline.h"
#include "router/front/http1/http_connection.h"
#include "router/front/http2/http2_connection.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Counts the connection in the metrics and in its server, for as long as it is open.
class ConnectionTicket {
 public:
  ConnectionTicket(ConnectionContext& context, std::shared_ptr<void> ticket)
      : context_(context), ticket_(std::move(ticket)) {
    context_.metrics.connections->Increment();
  }
  ConnectionTicket(const ConnectionTicket&) = delete;
  ConnectionTicket& operator=(const ConnectionTicket&) = delete;
  ~ConnectionTicket() { context_.metrics.connections->Decrement(); }

 private:
  ConnectionContext& context_;
  const std::shared_ptr<void> ticket_;
};

// A connection before its protocol is known. Runs on the strand of its socket; its one pending
// operation keeps it alive.
class ProtocolSniffer : public std::enable_shared_from_this<ProtocolSniffer> {
 public:
  ProtocolSniffer(std::unique_ptr<ConnectionStream> stream, ConnectionContext& context)
      : context_(context),
        stream_(std::move(stream)),
        deadline_(stream_->executor(), [this] { GiveUp(); }) {}

  void Start() {
    deadline_.Set(absl::ToChronoNanoseconds(context_.limits.header_timeout), weak_from_this());
    if (!stream_->encrypted()) return Await();
    stream_->Handshake([self = shared_from_this()](error_code error) {
      if (error) return self->GiveUp();
      self->Serve(self->stream_->agreed_on_http2());
    });
  }

 private:
  // The metrics change before the client sees the close.
  void GiveUp() {
    if (std::exchange(given_up_, true)) return;
    if (stream_->encrypted()) context_.metrics.refused_for_handshake->Increment();
    stream_->Close();
  }

  void Await() {
    stream_->AwaitReadable([self = shared_from_this()](error_code error) {
      if (!error) self->OnReadable();
    });
  }

  void OnReadable() {
    std::array<char, 4096> room;
    error_code error;
    const size_t num_bytes = stream_->ReadNow(asio::buffer(room), error);
    if (error && error != asio::error::would_block) return stream_->Close();
    received_.append(room.data(), num_bytes);
    if (received_.starts_with(kHttp2Preface)) return Serve(/*http2=*/true);
    if (!kHttp2Preface.starts_with(received_)) return Serve(/*http2=*/false);
    Await();
  }

  void Serve(bool http2) {
    deadline_.Clear();
    // The timer holds only this object, which ends here.
    std::unique_ptr<ConnectionStream> stream = std::move(stream_);
    http2 ? ServeHttp2(std::move(stream), received_, context_)
          : ServeHttp1(std::move(stream), received_, context_);
  }

  ConnectionContext& context_;
  std::unique_ptr<ConnectionStream> stream_;
  Deadline deadline_;
  std::string received_;
  bool given_up_ = false;
};

}  // namespace

void ServeConnection(tcp::socket socket, std::shared_ptr<TlsContext> tls,
                     ConnectionContext& context, ConnectionOptions options) {
  const auto strand = socket.get_executor();
  options.ticket = std::make_shared<ConnectionTicket>(context, std::move(options.ticket));
  auto stream =
      std::make_unique<ConnectionStream>(std::move(socket), std::move(tls), std::move(options));
  asio::post(strand, [sniffer = std::make_shared<ProtocolSniffer>(std::move(stream), context)] {
    sniffer->Start();
  });
}

}  // namespace lockstep::router
