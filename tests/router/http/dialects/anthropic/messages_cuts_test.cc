#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/http/dialects/anthropic/messages_writer_fixture.h"

// The same output, however it was cut into messages.
namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

// What a client makes of a stream, as Anthropic's own does it. Fails if the events break a rule.
json Accumulated(const std::string& stream) {
  json message;
  std::vector<std::string> inputs;
  std::string last;
  bool open = false;
  for (const std::string& text : Events(stream)) {
    const json event = json::parse(text);
    const std::string type = event["type"];
    if (type == "message_start") {
      EXPECT_EQ(last, "");
      message = event["message"];
    } else if (type == "content_block_start") {
      EXPECT_FALSE(open) << stream;
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      inputs.emplace_back();
      open = true;
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open) << stream;
      EXPECT_EQ(event["index"].get<size_t>() + 1, message["content"].size());
      json& block = message["content"].back();
      const json& delta = event["delta"];
      const std::string kind = delta["type"];
      if (kind == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (kind == "thinking_delta") {
        block["thinking"] =
            block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      }
      if (kind == "input_json_delta") inputs.back() += delta["partial_json"].get<std::string>();
      EXPECT_EQ(kind == "input_json_delta", block["type"] == "tool_use") << kind;
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(open) << stream;
      open = false;
      if (!inputs.back().empty()) message["content"].back()["input"] = json::parse(inputs.back());
    } else if (type == "message_delta") {
      EXPECT_FALSE(open) << stream;
      message.update(event["delta"]);
      message["usage"].update(event["usage"]);
    }
    last = type;
  }
  EXPECT_EQ(last, "message_stop");
  return message;
}

// An output of blocks of all kinds, in pieces of random size over random messages.
std::vector<v1::GenerateResponse> Cut(std::mt19937& random) {
  const std::vector<std::pair<int, std::string>> output = {{0, "First I think."},
                                                           {1, "Then \"I\" say:\n"},
                                                           {2, R"({"path":"/a","n":[1,{}]})"},
                                                           {2, "{}"},
                                                           {1, "More."},
                                                           {0, "Hm."},
                                                           {2, R"({"z":"ä"})"}};
  std::vector<v1::GenerateResponse> messages = Responses({kPromptInfo});
  uint32_t call = 0;
  for (const auto& [kind, text] : output) {
    v1::ToolCallDelta* begin = nullptr;
    if (kind == 2) {
      begin = messages.emplace_back().mutable_delta()->add_tool_calls();
      begin->set_index(call);
      begin->set_id("call_" + std::to_string(call));
      begin->set_name("f");
    }
    for (size_t at = 0; at < text.size();) {
      // Not inside a character.
      size_t size = std::min<size_t>(1 + random() % 5, text.size() - at);
      while (at + size < text.size() && (text[at + size] & 0xc0) == 0x80) ++size;
      v1::OutputDelta& delta = *messages.emplace_back().mutable_delta();
      delta.add_token_ids(1);
      const std::string piece = text.substr(at, size);
      if (kind == 0) delta.set_reasoning(piece);
      if (kind == 1) delta.set_text(piece);
      if (kind == 2) {
        v1::ToolCallDelta* const part =
            random() % 2 == 0 && at == 0 ? begin : delta.add_tool_calls();
        part->set_index(call);
        part->set_arguments(piece);
      }
      at += size;
    }
    if (kind == 2) ++call;
  }
  messages.push_back(Response(Finish("TOOL_CALLS", 50, "reasoning_tokens: 5")));
  return messages;
}

TEST(MessagesCutsTest, CutsChangeNothingAndAWholeMessageIsTheJoinedStream) {
  std::mt19937 random(77);
  const std::string expected = Write(Cut(random), /*stream=*/false);
  for (int round = 0; round < 200; ++round) {
    const std::vector<v1::GenerateResponse> messages = Cut(random);
    EXPECT_EQ(Write(messages, /*stream=*/false), expected);
    // In groups, too, as the messages of several steps may come together.
    const auto writer = MakeMessageWriter(Frame(), /*stream=*/true);
    std::string stream;
    for (size_t at = 0; at < messages.size();) {
      const size_t size = std::min<size_t>(1 + random() % 4, messages.size() - at);
      writer->Add(0, std::span(messages).subspan(at, size), stream);
      at += size;
    }
    writer->Finish(stream);
    EXPECT_EQ(Accumulated(stream), json::parse(expected));
    EXPECT_EQ(stream, Write(messages, /*stream=*/true));
  }
}

}  // namespace
}  // namespace lockstep::router
