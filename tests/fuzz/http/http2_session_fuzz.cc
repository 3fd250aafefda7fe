// The bytes of a stranger -> an HTTP/2 session with streams that answer. The first byte says how
// large the pieces are that the bytes come in; after every piece some streams have output. Whatever
// comes, what is sent are whole frames, every stream is closed once, and nothing is left behind.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "router/front/http2/http2_session.h"
#include "tests/support/http2_frames.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxHeaderListBytes = 2 << 10;

// Answers with what it got.
class EchoStream final : public StreamHandler {
 public:
  explicit EchoStream(int* num_open) : num_open_(num_open) { ++*num_open_; }
  ~EchoStream() override { LOCKSTEP_CHECK(closed_, "a stream was not closed"); }

  void OnBody(std::string_view bytes) override {
    LOCKSTEP_CHECK(!closed_ && !ended_, "a body goes on after its end");
    body_ += bytes;
  }
  void OnBodyEnd() override {
    LOCKSTEP_CHECK(!closed_ && !std::exchange(ended_, true), "a body ends twice");
  }
  bool WantsBody() const override { return body_.size() < 1000; }
  Output Take() override {
    LOCKSTEP_CHECK(!closed_, "a stream is used after its end");
    Output output;
    if (last_ || (body_.empty() && !ended_)) return output;
    if (!std::exchange(answered_, true)) output.head = HeaderList{{":status", "200"}};
    output.body = std::exchange(body_, std::string());
    output.last = last_ = ended_;
    if (last_) output.trailers = HeaderList{{"grpc-status", "0"}};
    return output;
  }
  void OnWritten() override { LOCKSTEP_CHECK(!closed_, "a stream is used after its end"); }
  void OnClosed() override {
    LOCKSTEP_CHECK(!std::exchange(closed_, true), "a stream is closed twice");
    --*num_open_;
  }

 private:
  int* const num_open_;
  std::string body_;
  bool ended_ = false;
  bool answered_ = false;
  bool last_ = false;
  bool closed_ = false;
};

void Feed(std::string_view input) {
  const size_t piece_size = 1 + static_cast<unsigned char>(input[0]);
  const std::string bytes = lockstep::testing::Preface() + std::string(input.substr(1));
  int num_open = 0;
  std::map<int32_t, size_t> streams;
  auto now = Http2Session::Time() + std::chrono::hours(1);
  std::string sent;
  {
    Http2Session session(
        {.max_concurrent_streams = 8, .max_header_list_bytes = kMaxHeaderListBytes},
        [&](StreamRequest request, int32_t id) {
          size_t num_bytes = 0;
          for (size_t i = 0; i < request.fields.size(); ++i) {
            num_bytes += request.fields[i].first.size() + request.fields[i].second.size() + 32;
          }
          LOCKSTEP_CHECK(num_bytes <= kMaxHeaderListBytes, "a header of {} bytes", num_bytes);
          LOCKSTEP_CHECK(++streams[id] == 1, "stream {} begins twice", id);
          return std::make_shared<EchoStream>(&num_open);
        });
    bool goes_on = true;
    for (size_t at = 0; at < bytes.size() && goes_on; at += piece_size) {
      goes_on = session.Receive(std::string_view(bytes).substr(at, piece_size), now);
      for (const auto& [id, count] : streams) session.Wake(id, now);
      session.Send(SIZE_MAX, now, sent);
      LOCKSTEP_CHECK(session.num_streams() <= 16, "{} streams", session.num_streams());
      LOCKSTEP_CHECK(goes_on || session.over(), "a session goes on after its end");
      now += std::chrono::milliseconds(10);
    }
    session.EndStalledStreams(
        {.body = std::chrono::milliseconds(50), .write = std::chrono::milliseconds(50)}, now);
    session.GoAway();
    session.Send(SIZE_MAX, now, sent);
  }
  LOCKSTEP_CHECK(num_open == 0, "{} streams stay", num_open);
  lockstep::testing::TakeFrames(sent);
  LOCKSTEP_CHECK(sent.empty(), "what is sent ends within a frame");
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) lockstep::router::Feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
