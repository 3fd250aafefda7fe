// Where the tokens of an echoed prompt are in the text, streamed and whole.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "router/http/dialects/openai/openai_writer.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

// The whole answer: the prompt's tokens, then 'b', a token without text, and 'c'.
std::string AnswerTo(const std::string& body, const std::vector<int>& prompt_ids) {
  const lockstep::testing::ByteTokenizer tokenizer;
  const auto request = ParseCompletionRequest(body);
  EXPECT_TRUE(request.ok()) << request.status();
  const auto writer = OpenAiWriter::Make({.id = "cmpl-1",
                                          .facts = {.model = "tiny", .tokenizer = &tokenizer},
                                          .format = &CompletionFormat()},
                                         *request);
  std::string info = "prompt_info { prompt_tokens: 3 ";
  for (size_t i = 0; i < prompt_ids.size(); ++i) {
    info += " prompt_logprobs { token_id: " + std::to_string(prompt_ids[i]) +
            (i == 0 ? " }" : " logprob: -1 rank: 1 }");
  }
  std::string out;
  for (const std::string& text :
       {info + " }",
        std::string("delta { index: 0 token_ids: 98 text: 'b' "
                    "  logprobs { token_id: 98 logprob: -3 rank: 1 } }"),
        std::string("delta { index: 0 token_ids: [300, 99] text: 'c' "
                    "  logprobs { token_id: 300 logprob: -3 rank: 1 } "
                    "  logprobs { token_id: 99 logprob: -3 rank: 1 } }"),
        std::string("finish { index: 0 reason: FINISH_REASON_LENGTH }")}) {
    lockstep::v1::GenerateResponse message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    writer->Add(0, {&message, 1}, out);
  }
  writer->Finish(out);
  return out;
}

// text[offset:] of each token of the answer, and the tokens; of a stream, of all chunks together.
struct Places {
  std::vector<std::string> texts;
  std::vector<std::string> tokens;
};

// Characters of the text, as bytes.
std::vector<std::string> Characters(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if (characters.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      characters.emplace_back();
    }
    characters.back() += c;
  }
  return characters;
}

Places PlacesOf(const std::vector<nlohmann::json>& objects) {
  std::string text;
  std::vector<size_t> offsets;
  Places places;
  for (const nlohmann::json& object : objects) {
    const nlohmann::json& choice = object["choices"][0];
    text += choice["text"].get<std::string>();
    for (const nlohmann::json& offset : choice["logprobs"]["text_offset"]) {
      offsets.push_back(offset);
    }
    for (const nlohmann::json& token : choice["logprobs"]["tokens"]) {
      places.tokens.push_back(token);
    }
  }
  const std::vector<std::string> characters = Characters(text);
  for (const size_t offset : offsets) {
    places.texts.emplace_back();
    for (size_t i = offset; i < characters.size(); ++i) places.texts.back() += characters[i];
  }
  return places;
}

struct EchoCase {
  const char* what;
  std::string prompt;  // JSON
  std::vector<int> prompt_ids;
  std::vector<int> hidden;  // places in prompt_ids of tokens that the echo does not show
  const char* part = "";    // the character that is shown for a part of one
};

// The byte tokenizer puts <s> (258) before texts. 256 and 257 are <|im_start|> and <|im_end|>. The
// model's vocabulary is larger, and 300 is no token.
TEST(EchoOffsetsTest, TheTextAtAnOffsetBeginsWithTheToken) {
  const EchoCase cases[] = {
      {"plain", R"("Hi")", {258, 'H', 'i'}, {0}},
      {"special", R"("a<|im_end|>b")", {258, 'a', 257, 'b'}, {0}},
      {"special first", R"("<|im_start|>u<|im_end|>")", {258, 256, 'u', 257}, {0}},
      {"the token that is put before texts", R"("<s>x")", {258, 258, 'x'}, {0}},
      {"special as plain text", R"("<s>")", {258, '<', 's', '>'}, {0}},
      {"characters of several bytes",
       R"("\u00e9<|im_end|>x")",
       {258, 0xC3, 0xA9, 257, 'x'},
       {0},
       "\u00e9"},
      {"ids", "[72, 105]", {72, 105}, {}},
      {"ids with special ones", "[72, 257, 258, 105]", {72, 257, 258, 105}, {1, 2}},
      {"ids that end inside of a character", "[72, 195]", {72, 195}, {}, "\uFFFD"},
      {"ids with half a character", "[72, 195, 105]", {72, 195, 105}, {}, "\uFFFD"},
      {"ids without a token", "[72, 300, 105, 4000]", {72, 300, 105, 4000}, {1, 3}},
  };
  for (const EchoCase& entry : cases) {
    for (const bool stream : {false, true}) {
      SCOPED_TRACE(std::string(entry.what) + (stream ? " streamed" : ""));
      const std::string out = AnswerTo(R"({"echo": true, "logprobs": 0, "prompt": )" +
                                           entry.prompt + (stream ? R"(, "stream": true})" : "}"),
                                       entry.prompt_ids);
      std::vector<nlohmann::json> objects;
      if (!stream) objects.push_back(nlohmann::json::parse(out));
      for (size_t at = out.find("data: {"); stream && at != std::string::npos;
           at = out.find("data: {", at + 1)) {
        objects.push_back(nlohmann::json::parse(out.substr(at + 6, out.find('\n', at) - at - 6)));
      }
      const Places places = PlacesOf(objects);
      ASSERT_EQ(places.texts.size(), entry.prompt_ids.size() + 3);
      for (size_t i = 0; i < entry.prompt_ids.size(); ++i) {
        const bool hidden =
            std::ranges::find(entry.hidden, static_cast<int>(i)) != entry.hidden.end();
        const int id = entry.prompt_ids[i];
        const lockstep::testing::ByteTokenizer tokenizer;
        const std::string_view spelling =
            id >= 0x80 && id < 0x100 ? entry.part : tokenizer.TokenBytes(id);
        if (hidden) {
          EXPECT_EQ(places.texts[i], places.texts[i + 1]);
        } else {
          EXPECT_TRUE(places.texts[i].starts_with(spelling)) << i << ": " << places.texts[i];
        }
      }
      EXPECT_EQ(places.texts[entry.prompt_ids.size()], "bc");
      EXPECT_EQ(places.texts[entry.prompt_ids.size() + 2], "c");
    }
  }
}

}  // namespace
}  // namespace lockstep::router
