#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/front/http2/http2_session.h"
#include "tests/support/http2_frames.h"

namespace lockstep::router {

using namespace lockstep::testing;  // NOLINT: frames, by hand

inline constexpr uint32_t kCancel = 8;
inline constexpr uint32_t kRefusedStream = 7;

// What a test says; keeps what came.
class ScriptedStream final : public StreamHandler {
 public:
  void OnBody(std::string_view bytes) override { body += bytes; }
  void OnBodyEnd() override { ended = true; }
  bool WantsBody() const override { return wants_body; }
  bool IsConversation() const override { return conversation; }
  Output Take() override { return std::exchange(next, Output()); }
  void OnWritten() override { ++num_written; }
  void OnClosed() override { ++num_closed; }

  std::string body;
  bool ended = false;
  bool wants_body = true;
  bool conversation = false;
  Output next;
  int num_written = 0;
  int num_closed = 0;
};

class Http2SessionTest : public ::testing::Test {
 protected:
  Http2SessionTest() { Restart({}); }

  void Restart(const Http2Limits& limits) {
    session_ = std::make_unique<Http2Session>(limits, [this](StreamRequest request, int32_t id) {
      requests_[id] = std::move(request);
      return streams_[id] = std::make_shared<ScriptedStream>();
    });
    seen_.clear();
    EXPECT_TRUE(session_->Receive(Preface(), now_));
    See();
    seen_.clear();
  }
  bool Receive(const std::string& bytes) {
    const bool goes_on = session_->Receive(bytes, now_);
    See();
    return goes_on;
  }
  // What the session sends.
  void See() {
    session_->Send(1 << 20, now_, sent_);
    for (SeenFrame& frame : TakeFrames(sent_)) seen_.push_back(std::move(frame));
  }
  void Answer(int32_t id, StreamHandler::Output output) {
    streams_.at(id)->next = std::move(output);
    session_->Wake(id, now_);
    See();
  }
  static std::string Request(uint32_t id, bool ends, const Fields& more = {}) {
    return Frame(kHeaders, kEndHeaders | (ends ? kEndStream : 0), id,
                 Hpack(RequestFields("/path", more)));
  }
  std::vector<SeenFrame> Seen(uint8_t type, uint32_t stream) const {
    std::vector<SeenFrame> frames;
    for (const SeenFrame& frame : seen_) {
      if (frame.type == type && frame.stream == stream) frames.push_back(frame);
    }
    return frames;
  }
  size_t NumDataBytes(uint32_t stream) const {
    size_t size = 0;
    for (const SeenFrame& frame : Seen(kData, stream)) size += frame.payload.size();
    return size;
  }
  void ExpectEnded(const char* reason) {
    EXPECT_TRUE(session_->violated());
    EXPECT_THAT(session_->violation(), ::testing::StrEq(reason));
    const std::vector<SeenFrame> goodbyes = Seen(kGoAway, 0);
    ASSERT_FALSE(goodbyes.empty());
    EXPECT_EQ(ErrorCode(goodbyes.back()), kEnhanceYourCalm);
    EXPECT_TRUE(session_->over());
  }

  Http2Session::Time now_ = Http2Session::Time() + std::chrono::hours(1);
  std::map<int32_t, StreamRequest> requests_;
  std::map<int32_t, std::shared_ptr<ScriptedStream>> streams_;
  std::unique_ptr<Http2Session> session_;
  std::string sent_;
  std::vector<SeenFrame> seen_;
};

inline HeaderList OkHead() { return {{":status", "200"}}; }

}  // namespace lockstep::router
