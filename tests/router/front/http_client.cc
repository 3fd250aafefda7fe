#include "tests/router/front/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/check.h"

namespace lockstep::testing {

std::vector<std::string> HttpResponse::Events() const {
  constexpr std::string_view kPrefix = "data: ";
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    LOCKSTEP_CHECK(end != std::string::npos && body.compare(at, kPrefix.size(), kPrefix) == 0,
                   "every event is one line of data: {}", body.substr(at));
    events.push_back(body.substr(at + kPrefix.size(), end - at - kPrefix.size()));
    at = end + 2;
  }
  return events;
}

HttpClient::HttpClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  LOCKSTEP_CHECK(
      ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
      "the gateway listens");
}

HttpClient::~HttpClient() { ::close(socket_); }

bool HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void HttpClient::ShutdownSend() { ::shutdown(socket_, SHUT_WR); }

std::string HttpClient::PostText(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

HttpResponse HttpClient::Post(const std::string& path, const std::string& body) {
  Send(PostText(path, body));
  return ReadResponse();
}

HttpResponse HttpClient::Get(const std::string& path) {
  Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return ReadResponse();
}

bool HttpClient::ReadMore() {
  char buffer[16384];
  const ssize_t size = ::recv(socket_, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  received_.append(buffer, static_cast<size_t>(size));
  return true;
}

std::string HttpClient::ReadAtMost(size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  const ssize_t size = ::recv(socket_, bytes.data(), bytes.size(), 0);
  bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return bytes;
}

std::optional<std::string> HttpClient::ReadUntil(std::string_view mark) {
  size_t at = 0;
  while ((at = received_.find(mark)) == std::string::npos) {
    if (!ReadMore()) return std::nullopt;
  }
  std::string bytes = received_.substr(0, at + mark.size());
  received_.erase(0, bytes.size());
  return bytes;
}

bool HttpClient::WaitUntilClosed() {
  while (ReadMore()) {
  }
  char byte = 0;
  return ::recv(socket_, &byte, 1, 0) == 0 || errno == ECONNRESET;
}

HttpResponse HttpClient::ReadHead() {
  HttpResponse response;
  const std::optional<std::string> head = ReadUntil("\r\n\r\n");
  if (!head.has_value()) return response;
  response.status = std::atoi(head->c_str() + sizeof("HTTP/1.1"));
  for (size_t line = head->find("\r\n") + 2; line + 2 < head->size();) {
    const size_t end = head->find("\r\n", line);
    const size_t colon = head->find(": ", line);
    std::string name = head->substr(line, colon - line);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    response.headers[name] = head->substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  return response;
}

bool HttpClient::ReadChunks(std::string& body) {
  for (;;) {
    const std::optional<std::string> line = ReadUntil("\r\n");
    if (!line.has_value()) return false;
    const size_t size = std::strtoul(line->c_str(), nullptr, 16);
    while (received_.size() < size + 2) {
      if (!ReadMore()) return false;
    }
    body.append(received_, 0, size);
    received_.erase(0, size + 2);
    if (size == 0) return true;
  }
}

HttpResponse HttpClient::ReadResponse() {
  HttpResponse response = ReadHead();
  if (response.status == 0) return response;
  if (response.headers.contains("transfer-encoding")) {
    response.complete = ReadChunks(response.body);
  } else if (const auto length = response.headers.find("content-length");
             length != response.headers.end()) {
    const size_t size = std::strtoul(length->second.c_str(), nullptr, 10);
    while (received_.size() < size && ReadMore()) {
    }
    response.complete = received_.size() >= size;
    response.body = received_.substr(0, size);
    received_.erase(0, response.body.size());
  } else {
    while (ReadMore()) {
    }
    response.body = std::exchange(received_, {});
    response.complete = true;
  }
  return response;
}

}  // namespace lockstep::testing
