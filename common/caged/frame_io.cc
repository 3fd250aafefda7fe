#include "common/caged/frame_io.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace lockstep {
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

void PutLength(size_t length, char* out) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) out[i] = static_cast<char>(length >> (8 * i));
}

}  // namespace

FrameWriter::FrameWriter(size_t num_bytes) {
  frame_.reserve(kFrameHeaderBytes + num_bytes);
  frame_.assign(kFrameHeaderBytes, '\0');
}

void FrameWriter::Length(size_t length) {
  std::array<char, kFrameHeaderBytes> bytes;
  PutLength(length, bytes.data());
  frame_.append(bytes.data(), bytes.size());
}

void FrameWriter::String(std::string_view text) {
  Length(text.size());
  frame_ += text;
}

std::string FrameWriter::Finish() {
  PutLength(frame_.size() - kFrameHeaderBytes, frame_.data());
  return std::move(frame_);
}

size_t ReadLength(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= size_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  return length;
}

std::optional<CagedAnswer> ParseCagedAnswer(std::string_view payload) {
  constexpr size_t kTextBegin = 1 + kFrameHeaderBytes;
  constexpr char kOk = 'K';
  constexpr char kError = 'E';
  if (payload.size() < kTextBegin || (payload[0] != kOk && payload[0] != kError)) {
    return std::nullopt;
  }
  const CagedAnswer answer = {.failed = payload[0] == kError, .text = payload.substr(kTextBegin)};
  if (ReadLength(payload.substr(1)) != answer.text.size()) return std::nullopt;
  return answer;
}

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
  const size_t size = ReadLength({header.data(), header.size()});
  if (size > max_bytes) return FrameEnd::kTooLong;
  payload.resize(size);
  return ReceiveAll(socket, payload.data(), size, patience);
}

}  // namespace lockstep
