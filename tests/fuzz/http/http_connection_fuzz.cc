// The bytes of a stranger -> a real connection over a pair of sockets, with a scripted gateway
// behind it. The first byte says in how many pieces they come, and whether the sending side is
// closed at the end; the bytes after it are the pieces' sizes. Everything runs on one thread.
// Whatever comes, what is answered is HTTP, and nothing is left behind.
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"
#include "router/front/http1/http_connection.h"
#include "router/front/serve_connection.h"
#include "router/http/http_stream.h"
#include "tests/router/front/scripted_gateway.h"

namespace lockstep::router {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kMaxBodyBytes = 32 << 10;

std::shared_ptr<Exchange> Answer(HttpRequest request, std::shared_ptr<OutputSignal> signal) {
  LOCKSTEP_CHECK(request.body.size() <= kMaxBodyBytes, "{} bytes", request.body.size());
  LOCKSTEP_CHECK(request.path.find('?') == std::string::npos, "a query in {}", request.path);
  if (request.path == "/large") request.path = "/echo";
  return lockstep::testing::ScriptedAnswer(std::move(request), std::move(signal));
}

// Removes a line, without its end, from the front.
bool TakeLine(std::string_view& text, std::string_view& line) {
  const size_t end = text.find("\r\n");
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return true;
}

size_t NumberOf(std::string_view digits, int base) {
  size_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  LOCKSTEP_CHECK(error == std::errc() && end == digits.data() + digits.size(), "no size: {}",
                 digits);
  return number;
}

// False when the text ends inside it.
bool TakeChunks(std::string_view& text) {
  for (std::string_view line; TakeLine(text, line);) {
    const size_t size = NumberOf(line, 16);
    if (text.size() < size + 2) return false;
    LOCKSTEP_CHECK(text.substr(size, 2) == "\r\n", "a chunk does not end");
    text.remove_prefix(size + 2);
    if (size == 0) return true;
  }
  return false;
}

// The answers, one after the other; the last may be cut off. Those to HEAD have a length and no
// body, so what follows is looked for rather than counted.
void CheckAnswers(std::string_view text, bool has_head_requests) {
  while (!text.empty()) {
    std::string_view line;
    if (!TakeLine(text, line)) return;
    LOCKSTEP_CHECK(line.starts_with("HTTP/1.1 "), "no status line: {}", line);
    LOCKSTEP_CHECK(line.find("Unknown") == std::string_view::npos, "a strange status: {}", line);
    bool chunked = false;
    size_t length = SIZE_MAX;
    bool whole = false;
    const bool go_on = line == "HTTP/1.1 100 Continue";
    while (TakeLine(text, line)) {
      if (whole = line.empty(); whole) break;
      constexpr std::string_view kLength = "Content-Length: ";
      if (line.starts_with(kLength)) length = NumberOf(line.substr(kLength.size()), 10);
      chunked = chunked || line == "Transfer-Encoding: chunked";
    }
    if (!whole || has_head_requests) return;
    if (go_on) continue;
    if (chunked) {
      if (!TakeChunks(text)) return;
    } else if (length > text.size()) {
      return;  // cut off, or up to the end
    } else {
      text.remove_prefix(length);
    }
  }
}

// One connection, from its beginning to its end.
class Run {
 public:
  Run() {
    int fds[2];
    LOCKSTEP_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0, "{}", errno);
    client_ = fds[0];
    tcp::socket socket(boost::asio::make_strand(io_));
    socket.assign(tcp::v4(), fds[1]);
    ServeConnection(std::move(socket), nullptr, context_);
    io_.poll();
  }
  ~Run() {
    ::close(client_);
    Poll();
    LOCKSTEP_CHECK(metrics_.connections->Value() == 0, "a connection stays");
    LOCKSTEP_CHECK(metrics_.requests_in_flight->Value() == 0, "a request stays");
    LOCKSTEP_CHECK(memory_.held_bytes() == 0, "{} bytes stay", memory_.held_bytes());
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return;  // the connection ended
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      Read();
    }
  }
  void EndSending() {
    ::shutdown(client_, SHUT_WR);
    Read();
  }
  const std::string& received() const { return received_; }

 private:
  void Poll() {
    io_.restart();
    io_.poll();
  }
  void Read() {
    char buffer[16384];
    for (ssize_t size = 1; size > 0;) {
      Poll();
      size = ::recv(client_, buffer, sizeof(buffer), 0);
      if (size > 0) received_.append(buffer, static_cast<size_t>(size));
    }
  }

  prometheus::Registry registry_;
  HttpMetrics metrics_{registry_, "model", {}};
  ByteBudget memory_{2 * kMaxBodyBytes};
  HttpStreamContext http_{
      .handle = Answer, .metrics = metrics_, .memory = memory_, .max_body_bytes = kMaxBodyBytes};
  ConnectionContext context_{
      .open_stream =
          [this](const StreamRequest& request, std::shared_ptr<OutputSignal> signal) {
            return OpenHttpStream(http_, request, std::move(signal));
          },
      .draining = [] { return false; },
      .limits = {.max_body_bytes = kMaxBodyBytes,
                 .header_timeout = absl::InfiniteDuration(),
                 .body_timeout = absl::InfiniteDuration(),
                 .idle_timeout = absl::InfiniteDuration(),
                 .write_timeout = absl::InfiniteDuration()},
      .metrics = metrics_,
      .memory = memory_};
  boost::asio::io_context io_{1};
  int client_ = -1;
  std::string received_;
};

void Feed(std::string_view input) {
  const auto first = static_cast<unsigned char>(input[0]);
  const size_t num_pieces = first % 8;
  const std::string_view sizes = input.substr(1, num_pieces);
  std::string_view bytes = input.substr(1 + sizes.size());
  if (bytes.starts_with("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) return;  // another fuzzer's
  const bool has_head_requests = bytes.find("HEAD") != std::string_view::npos;
  Run run;
  for (const char size : sizes) {
    const std::string_view piece = bytes.substr(0, 1 + static_cast<unsigned char>(size));
    bytes.remove_prefix(piece.size());
    run.Send(piece);
  }
  run.Send(bytes);
  if ((first & 8) != 0) run.EndSending();
  CheckAnswers(run.received(), has_head_requests);
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) lockstep::router::Feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
