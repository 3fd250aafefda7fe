#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

struct HttpResponse {
  int status = 0;                              // 0: the connection ended before a whole header came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = false;  // the body came to its end

  // The payloads of server-sent events.
  std::vector<std::string> Events() const;
};

// A connection to 127.0.0.1 that sends what it is told and reads HTTP/1.1 responses, strictly.
// Blocking; nothing waits longer than a minute.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  // What could be sent; false when the connection is gone.
  bool Send(std::string_view bytes);
  void ShutdownSend();

  HttpResponse Post(const std::string& path, const std::string& body);
  HttpResponse Get(const std::string& path);
  HttpResponse ReadResponse();

  // Piece by piece: the header, then what there is of the body up to a mark.
  HttpResponse ReadHead();
  // All bytes up to the end of the first `mark`; nothing when the connection ended before.
  std::optional<std::string> ReadUntil(std::string_view mark);
  // What there is, once there is something; empty at the end.
  std::string ReadAtMost(size_t num_bytes);
  // Reads until the other side closes; false when it does not.
  bool WaitUntilClosed();

  // A whole request.
  static std::string PostText(const std::string& path, const std::string& body);

 private:
  bool ReadMore();
  bool ReadChunks(std::string& body);

  int socket_ = -1;
  std::string received_;
};

}  // namespace lockstep::testing
