#include "router/templates/frame_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "router/templates/renderer_frames.h"

namespace lockstep::router {
namespace {

// NOLINTNEXTLINE(google-runtime-int): poll's type
FrameEnd WaitFor(int socket, short events, Patience patience) {
  const int milliseconds = patience();
  if (milliseconds == 0) return FrameEnd::kOverdue;
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  // The result does not matter: the caller tries the transfer again and asks patience again.
  poll(&waiting, 1, milliseconds);
  return FrameEnd::kDone;
}

FrameEnd ReceiveAll(int socket, char* out, size_t size, Patience patience) {
  while (size > 0) {
    const ssize_t received = recv(socket, out, size, MSG_DONTWAIT);
    if (received > 0) {
      out += received;
      size -= static_cast<size_t>(received);
      continue;
    }
    if (received == 0) return FrameEnd::kClosed;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return FrameEnd::kClosed;
    const FrameEnd waited = WaitFor(socket, POLLIN, patience);
    if (waited != FrameEnd::kDone) return waited;
  }
  return FrameEnd::kDone;
}

}  // namespace

FrameEnd SendFrame(int socket, std::string_view frame, Patience patience) {
  while (!frame.empty()) {
    const ssize_t sent = send(socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      frame.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return FrameEnd::kClosed;
    const FrameEnd waited = WaitFor(socket, POLLOUT, patience);
    if (waited != FrameEnd::kDone) return waited;
  }
  return FrameEnd::kDone;
}

FrameEnd ReceivePayload(int socket, size_t max_bytes, std::string& payload, Patience patience) {
  std::array<char, kFrameHeaderBytes> header;
  const FrameEnd started = ReceiveAll(socket, header.data(), header.size(), patience);
  if (started != FrameEnd::kDone) return started;
  const size_t size = PayloadBytes({header.data(), header.size()});
  if (size > max_bytes) return FrameEnd::kTooLong;
  payload.resize(size);
  return ReceiveAll(socket, payload.data(), size, patience);
}

}  // namespace lockstep::router
