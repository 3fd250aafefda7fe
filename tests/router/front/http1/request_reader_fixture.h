#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "router/front/http1/request_reader.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

class RequestReaderTest : public ::testing::Test {
 protected:
  using State = RequestReader::State;
  static constexpr size_t kMaxBodyBytes = 100'000;
  static constexpr size_t kMemoryBytes = 150'000;

  // Collects the body of a request.
  class Body final : public StreamHandler {
   public:
    void OnBody(std::string_view bytes) override { text += bytes; }
    void OnBodyEnd() override {}
    Output Take() override { return {}; }
    void OnWritten() override {}
    void OnClosed() override {}

    std::string text;
  };

  // Bodies are wanted.
  State Advance(RequestReader& reader) {
    const State state = reader.Advance();
    if (state != State::kOpens) return state;
    request_ = reader.Take();
    body_.text.clear();
    reader.PassBodyTo(body_);
    return reader.Advance();
  }
  // In pieces as large as the reader takes, or `piece_bytes`.
  State Feed(RequestReader& reader, std::string_view bytes, size_t piece_bytes = SIZE_MAX) {
    State state = State::kNothing;
    while (!bytes.empty()) {
      const auto piece = bytes.substr(0, piece_bytes);
      const size_t size = boost::asio::buffer_copy(reader.Prepare(), boost::asio::buffer(piece));
      reader.Commit(size);
      bytes.remove_prefix(size);
      state = Advance(reader);
    }
    return state;
  }
  static std::string Post(size_t announced_bytes) {
    return "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(announced_bytes) +
           "\r\n\r\n";
  }
  std::string_view Field(std::string_view name) const { return request_.header.fields.Find(name); }
  RequestReader MakeReader() { return RequestReader(kMaxBodyBytes, memory_); }

  ByteBudget memory_{kMemoryBytes};
  RequestReader::Request request_;  // the latest
  Body body_;                       // of it
};

}  // namespace lockstep::router
