#include "bench/router/cost/sse_load.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/net/address.h"
#include "common/status.h"

namespace lockstep::bench {
namespace {

constexpr int kWaitMs = 50;
// Holds the last events of a stream: usage, [DONE] and what ends a chunked body.
constexpr size_t kTailBytes = 1024;
constexpr std::string_view kEnd = "\r\n0\r\n\r\n";
constexpr std::string_view kUsage = "\"completion_tokens\":";

std::string MakeHttpRequest(const StreamShape& shape, uint32_t index) {
  const std::string prompt = shape.as_text
                                 ? fmt::format("\"{}\"", PromptText(shape, index))
                                 : fmt::format("[{}]", fmt::join(PromptTokens(shape, index), ","));
  const std::string body = fmt::format(
      "{{\"model\":\"cost\",\"prompt\":{},\"max_tokens\":{},\"temperature\":0,\"stream\":true,"
      "\"ignore_eos\":true,\"stream_options\":{{\"include_usage\":true}}}}",
      prompt, shape.num_output_tokens);
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

}  // namespace

struct SseLoad::Stream {
  explicit Stream(int socket_fd) : fd(socket_fd) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::close(fd); }

  const int fd;
  char last_byte = 0;
  bool first = true;
  bool over = false;
  std::string tail;
};

absl::StatusOr<std::unique_ptr<SseLoad>> SseLoad::Make(const std::string& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  std::unique_ptr<SseLoad> load(new SseLoad());
  load->host_ = parsed.host;
  load->port_ = parsed.port;
  load->epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (load->epoll_fd_ < 0) return Internal("epoll_create1: {}", std::strerror(errno));
  load->thread_ =
      NamedThread("sse", [load = load.get()](const std::stop_token& stop) { load->Run(stop); });
  return load;
}

SseLoad::~SseLoad() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
}

absl::Status SseLoad::Open(const StreamShape& shape) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Internal("socket: {}", std::strerror(errno));
  Stream& stream = *streams_.emplace_back(std::make_unique<Stream>(fd));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  if (::inet_pton(AF_INET, host_.c_str(), &to.sin_addr) != 1 ||
      ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return Unavailable("{}:{}: {}", host_, port_, std::strerror(errno));
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const std::string request = MakeHttpRequest(shape, static_cast<uint32_t>(streams_.size() - 1));
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return Unavailable("the request was not taken: {}", std::strerror(errno));
  }
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &stream}};
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  return absl::OkStatus();
}

void SseLoad::Run(const std::stop_token& stop) {
  std::array<epoll_event, 256> events;
  while (!stop.stop_requested()) {
    const int count = ::epoll_wait(epoll_fd_, events.data(), events.size(), kWaitMs);
    for (int i = 0; i < count; ++i)
      Read(*static_cast<Stream*>(events[static_cast<size_t>(i)].data.ptr));
  }
}

void SseLoad::Read(Stream& stream) {
  char buffer[16 << 10];
  const ssize_t count = ::recv(stream.fd, buffer, sizeof(buffer), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, stream.fd, nullptr);
    if (!stream.over) record_.AddFailure("a connection ended before its answer: " + stream.tail);
    return;
  }
  const std::string_view bytes(buffer, static_cast<size_t>(count));
  uint64_t num_events = 0;
  for (const char byte : bytes) {
    num_events += byte == '\n' && stream.last_byte == '\n' ? 1 : 0;
    stream.last_byte = byte;
  }
  if (num_events > 0) record_.AddChunks(num_events, 0, std::exchange(stream.first, false));
  stream.tail.append(bytes);
  if (stream.first && !stream.tail.starts_with("HTTP/1.1 200")) {
    stream.over = true;
    return record_.AddFailure("refused: " + stream.tail);
  }
  if (!stream.first && stream.tail.size() > kTailBytes) {
    stream.tail.erase(0, stream.tail.size() - kTailBytes);
  }
  if (!stream.tail.ends_with(kEnd)) return;
  stream.over = true;
  const size_t usage = stream.tail.rfind(kUsage);
  if (usage == std::string::npos) return record_.AddFailure("no usage in: " + stream.tail);
  record_.AddEnd(std::strtoull(stream.tail.c_str() + usage + kUsage.size(), nullptr, 10));
}

}  // namespace lockstep::bench
