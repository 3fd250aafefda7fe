#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "router/serving/calls/system_fingerprint.h"
#include "tests/router/http/gateway_fixture.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/byte_tokenizer.h"

// The gateway's answers, over a socket, with a whole router and worker behind it.
namespace lockstep::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(GatewayTest, ThePageMayLoadItsOwnFilesOnly) {
  StartAll();
  for (const auto& [path, type] : {std::pair("/", "text/html; charset=utf-8"),
                                   std::pair("/page.css", "text/css; charset=utf-8"),
                                   std::pair("/page.js", "text/javascript; charset=utf-8")}) {
    const HttpResponse file = Get(path);
    EXPECT_EQ(file.status, 200) << path;
    EXPECT_EQ(file.headers.at("content-type"), type);
    EXPECT_THAT(file.headers.at("content-security-policy"), StartsWith("default-src 'none'; "));
    EXPECT_EQ(file.headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(file.headers.at("referrer-policy"), "no-referrer");
    EXPECT_GT(file.body.size(), 1000u);
  }
  const std::string html = Get("/").body;
  EXPECT_THAT(html, HasSubstr("<title>Lockstep</title>"));
  EXPECT_THAT(html, Not(HasSubstr("http"))) << "nothing comes from elsewhere";
  ExpectError(Post("/", "{}"), 405, nullptr, "GET, HEAD, OPTIONS only");
}

TEST_F(GatewayTest, ThePageCanBeTurnedOff) {
  router_config_.api.page = false;
  StartAll();
  for (const char* path : {"/", "/page.css", "/page.js"}) {
    ExpectError(Get(path), 404, nullptr, "--no-page");
  }
}

TEST_F(GatewayTest, CompletesATextTokensAndABatch) {
  StartAll();
  const HttpResponse text =
      Post("/v1/completions", R"({"model": "bytes", "prompt": "Hello", "max_tokens": 5})");
  ASSERT_EQ(text.status, 200) << text.body;
  const json answer = Json(text);
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_EQ(answer["model"], "bytes");
  EXPECT_EQ(answer["choices"][0]["text"], After("Hello", 5));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 5);

  EXPECT_EQ(Text(Post("/v1/completions", R"({"prompt": [1, 2, 3], "max_tokens": 4})")),
            Continuation(3, 4));
  const json batch = Json(
      Post("/v1/completions", R"({"prompt": ["a", [1, 2, 3], "abc"], "max_tokens": 3, "n": 2})"));
  ASSERT_EQ(batch["choices"].size(), 6u) << batch;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(batch["choices"][i]["index"], i);
    EXPECT_EQ(batch["choices"][i]["text"], Continuation(2 + i / 2, 3));
  }
  EXPECT_EQ(batch["usage"]["completion_tokens"], 18);
  ExpectEverythingBack();
}

TEST_F(GatewayTest, SixteenTokensAreTheDefaultOfACompletion) {
  StartAll();
  EXPECT_EQ(Text(Post("/v1/completions", R"({"prompt": "x"})")), After("x", 16));
}

TEST_F(GatewayTest, StreamsACompletion) {
  StartAll();
  const HttpResponse response =
      Post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 30, "stream": true,
                                  "stream_options": {"include_usage": true}})");
  ASSERT_EQ(response.status, 200);
  EXPECT_THAT(response.headers.at("content-type"), StartsWith("text/event-stream"));
  ASSERT_TRUE(response.complete);
  EXPECT_EQ(Text(response), After("Hello", 30));
  const std::vector<std::string> events = response.Events();
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.back(), "[DONE]");
  const json usage = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["total_tokens"], 36);
  EXPECT_EQ(json::parse(events[events.size() - 3])["choices"][0]["finish_reason"], "length");
  // Tokens that come together share an event.
  for (size_t i = 0; i + 3 < events.size(); ++i) {
    EXPECT_TRUE(json::parse(events[i])["choices"][0]["finish_reason"].is_null()) << events[i];
  }
}

TEST_F(GatewayTest, AnswersAChatWholeAndStreamed) {
  StartAll();
  const std::string messages = R"("messages": [{"role": "user", "content": "Hi"}])";
  const json whole =
      Json(Post("/v1/chat/completions", "{" + messages + R"(, "max_completion_tokens": 4})"));
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_THAT(whole["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(whole["choices"][0]["message"]["role"], "assistant");
  const std::string said = whole["choices"][0]["message"]["content"];
  EXPECT_EQ(said.size(), 4u);

  const HttpResponse streamed = Post(
      "/v1/chat/completions", "{" + messages + R"(, "max_tokens": 4, "stream": true, "n": 2})");
  ASSERT_EQ(streamed.status, 200) << streamed.body;
  const std::vector<std::string> events = streamed.Events();
  EXPECT_EQ(json::parse(events.at(0))["choices"][0]["delta"]["role"], "assistant");
  std::vector<std::string> texts(2);
  for (const std::string& event : events) {
    if (event == "[DONE]") break;
    const json choice = json::parse(event)["choices"][0];
    texts.at(choice["index"]) += choice["delta"].value("content", "");
  }
  EXPECT_EQ(texts[0], said);
  EXPECT_EQ(texts[1], said);
}

TEST_F(GatewayTest, StopStringsLogprobsAndEchoWorkTogether) {
  StartAll();
  const json answer = Json(Post("/v1/completions", R"({"prompt": [1], "max_tokens": 20,
      "stop": "ef", "echo": true, "logprobs": 1, "temperature": 0})"));
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"],
            "\x01"
            "bcd")
      << answer;
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], "ef");
  const json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 6u);  // the stop string's tokens are counted
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["tokens"][1], "b");
  EXPECT_LT(logprobs["token_logprobs"][1].get<double>(), 0.001);
}

TEST_F(GatewayTest, TokenizesAndBack) {
  StartAll();
  const json tokens = Json(Post("/tokenize", R"({"prompt": "Hi", "add_special_tokens": false,
                            "return_token_strs": true})"));
  EXPECT_EQ(tokens["tokens"], json({72, 105}));
  EXPECT_EQ(tokens["count"], 2);
  EXPECT_EQ(tokens["max_model_len"], kContextTokens);
  EXPECT_EQ(tokens["token_strs"], json({"H", "i"}));
  // As the vocabulary spells them, so that a cut character can be told from others.
  EXPECT_EQ(Json(Post("/tokenize", R"({"prompt": "<s> \u00e9\n", "add_special_tokens": false,
                      "return_token_strs": true})"))["token_strs"],
            json({"<s>", "\u0120", "\u00c3", "\u00a9", "\u010a"}));
  EXPECT_EQ(Json(Post("/detokenize", R"({"tokens": [72, 105]})"))["prompt"], "Hi");
  EXPECT_EQ(Json(Post("/tokenize", R"({"prompt": "<s>"})"))["count"], 2);
  EXPECT_EQ(Json(Post("/tokenize", R"({"prompt": "<s>", "parse_special": false})"))["count"], 4);
  ExpectError(Post("/detokenize", R"({"tokens": [72, 999]})"), 400, "tokens",
              "expected token ids below 259, got 999 at index 1");
  ExpectError(Post("/tokenize", R"({"prompt": "x", "model": "y"})"), 404, "model", "\"bytes\"");
}

// As in every Qwen: the model's vocabulary is larger than the tokenizer's.
TEST_F(GatewayTest, IdsWithoutATokenAreNoText) {
  model_options_.vocab_size = ByteTokenizer::kVocabSize + 10;
  model_.config.vocab_size = ByteTokenizer::kVocabSize + 10;
  expected_fingerprint_ = FakeForwardModel(model_options_).info().model_fingerprint;
  StartAll();
  EXPECT_EQ(Json(Post("/detokenize", R"({"tokens": [72, 260, 105, 268]})"))["prompt"], "Hi");
  ExpectError(Post("/detokenize", R"({"tokens": [269]})"), 400, "tokens",
              "expected token ids below 269, got 269 at index 0");
  for (const char* stream : {"false", "true"}) {
    const HttpResponse response =
        Post("/v1/completions", R"({"prompt": [72, 260, 105], "echo": true, "max_tokens": 1,
            "logprobs": 1, "stream": )" +
                                    std::string(stream) + "}");
    ASSERT_EQ(response.status, 200) << response.body;
    const json answer =
        stream == std::string("true") ? json::parse(response.Events()[0]) : Json(response);
    const json& choice = answer["choices"][0];
    EXPECT_TRUE(choice["text"].get<std::string>().starts_with("Hi")) << answer;
    EXPECT_EQ(choice["logprobs"]["tokens"][1], "") << answer;
    EXPECT_EQ(choice["logprobs"]["text_offset"].get<std::vector<int>>(),
              (std::vector<int>{0, 1, 1, 2}));
  }
}

TEST_F(GatewayTest, TokenizesTheArgumentsOfATemplateInTheirOrder) {
  model_ = MakeByteModel("{{ tools[0] | tojson }}");
  StartAll();
  const json tokens = Json(Post("/tokenize", R"({"messages": [{"role": "user", "content": "x"}],
      "chat_template_kwargs": {"tools": [{"type": "f", "name": "g"}]}})"));
  const json text = Json(Post("/detokenize", json({{"tokens", tokens["tokens"]}}).dump()));
  EXPECT_EQ(text["prompt"], R"({"type": "f", "name": "g"})");
}

// What a chat refuses would be missing in the count.
TEST_F(GatewayTest, TokenizesAChatExactlyAsChatsReadIt) {
  StartAll();
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, )";
  for (const std::string field :
       {R"("tools": [{"type": "function", "function": {"name": "f"}}])", R"("documents": [{}])",
        R"("chat_template": "x")", R"("functions": [{}])", R"("reasoning_effort": "high")",
        R"("tool_choice": "required")", R"("mm_processor_kwargs": {"a": 1})",
        R"("chat_template_kwargs": 1)", R"("continue_final_message": 1)", R"("tools": [])",
        R"("documents": null)", R"("tool_choice": "none")"}) {
    const HttpResponse chat = Post("/v1/chat/completions", messages + field + "}");
    const HttpResponse count = Post("/tokenize", messages + field + "}");
    EXPECT_EQ(count.status, chat.status) << field << count.body;
    if (chat.status != 200) {
      EXPECT_EQ(count.body, chat.body) << field;
    }
  }
  ExpectError(Post("/tokenize", messages + R"("prompt": "x"})"), 400, "prompt", "without");
}

TEST_F(GatewayTest, SaysWhatItIs) {
  StartAll();
  const json models = Json(Get("/v1/models"));
  EXPECT_EQ(models["data"][0]["id"], "bytes");
  EXPECT_EQ(models["models"], json::array());  // of Codex
  EXPECT_EQ(models["data"][0]["max_model_len"], kContextTokens);
  EXPECT_EQ(Json(Get("/v1/models/bytes"))["object"], "model");
  EXPECT_EQ(models["data"][0]["weights_dtype"], "none");
  EXPECT_GT(models["data"][0]["weights_bytes"], 0);
  EXPECT_EQ(models["data"][0]["kv_dtype"], "none");
  // As at vLLM.
  const json& model = models["data"][0];
  EXPECT_EQ(model["root"], "bytes");
  EXPECT_TRUE(model.contains("parent") && model["parent"].is_null());
  ASSERT_EQ(model["permission"].size(), 1u);
  EXPECT_EQ(model["permission"][0]["object"], "model_permission");
  EXPECT_EQ(model["permission"][0]["allow_sampling"], true);
  EXPECT_EQ(model["permission"][0]["allow_fine_tuning"], false);
  EXPECT_EQ(Get("/v1/models/b%79tes").status, 200);
  EXPECT_EQ(Json(Get("/v1/models/")), models);
  EXPECT_EQ(Get("/v1/models/bytes%2").status, 404);
  ExpectError(Get("/v1/models/other"), 404, "model", "expected \"bytes\"");
  EXPECT_EQ(Json(Get("/health"))["status"], "ok");
  EXPECT_EQ(Json(Get("/ready"))["status"], "ready");
  EXPECT_TRUE(Json(Get("/version")).contains("version"));
  EXPECT_GT(models["data"][0]["created"], 1'500'000'000);
  for (const HttpResponse& ping : {Get("/ping"), Post("/ping", ""), Post("/ping", "{}")}) {
    EXPECT_EQ(ping.status, 200);
    EXPECT_EQ(ping.body, "");
  }
  const HttpResponse metrics = Get("/metrics?name=x");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.body, HasSubstr("lockstep_router_requests_total"));
  EXPECT_THAT(metrics.body, HasSubstr("process_resident_memory_bytes"));
}

TEST_F(GatewayTest, TokenIdsOfPromptAndOutputAreToldWhenAskedFor) {
  StartAll();
  const json answer = Json(
      Post("/v1/completions", R"({"prompt": "a", "max_tokens": 2, "return_token_ids": true})"));
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"], json({258, 97})) << answer;
  const std::string text = choice["text"];
  EXPECT_EQ(choice["token_ids"], json({text.at(0), text.at(1)})) << answer;
}

TEST_F(GatewayTest, AnswersSayWhatMadeThemAndWithWhichSeed) {
  StartAll();
  const json drawn = Json(Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})"));
  const std::string fingerprint = drawn["system_fingerprint"];
  EXPECT_THAT(fingerprint, ::testing::MatchesRegex("fp_[0-9a-f]{16}"));
  // Every client's JSON has such a number exactly.
  EXPECT_LT(drawn["choices"][0]["seed"].get<uint64_t>(), uint64_t{1} << 53);
  const HttpResponse streamed =
      Post("/v1/completions", R"({"prompt": "x", "max_tokens": 3, "seed": -5, "stream": true})");
  std::vector<std::string> events = streamed.Events();
  events.pop_back();
  for (const std::string& event : events) {
    EXPECT_EQ(json::parse(event)["system_fingerprint"], fingerprint) << event;
  }
  EXPECT_EQ(json::parse(events.back())["choices"][0]["seed"], -5) << events.back();
}

TEST_F(GatewayTest, TheFingerprintIsOfWhatTheOutputDependsOn) {
  router_config_.api.parse_special = false;
  StartBoth();
  const std::string plain = router::SystemFingerprint(router_->api());
  EXPECT_EQ(router::SystemFingerprint(router_->api()), plain);
  router_.reset();
  router_config_.api.parse_special = true;
  StartRouter();
  WaitForReadiness(true);
  EXPECT_NE(router::SystemFingerprint(router_->api()), plain);
}

TEST_F(GatewayTest, WorkersThatMayDifferHaveNoFingerprint) {
  router_config_.api.mixed_workers = true;
  StartAll();
  const json answer = Json(Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})"));
  EXPECT_TRUE(answer["system_fingerprint"].is_null()) << answer;
}

TEST_F(GatewayTest, DescribesItsTokenizer) {
  StartAll();
  const json info = Json(Get("/tokenizer_info"));
  EXPECT_EQ(info["vocab_size"], model_.tokenizer->vocab_size());
  EXPECT_EQ(info["model_max_length"], kContextTokens);
  EXPECT_EQ(info["chat_template"], model_.tokenizer->chat_template());
  EXPECT_EQ(info["eos_token"], "<|im_end|>");
  EXPECT_EQ(info["eos_token_ids"], json(model_.config.eos_token_ids));
  const json& added = info["added_tokens_decoder"];
  EXPECT_EQ(added.size(), model_.tokenizer->SpecialSpellings().size()) << info;
  for (const auto& [id, token] : added.items()) {
    EXPECT_EQ(token["content"], model_.tokenizer->TokenBytes(std::stoul(id)));
  }
}

TEST_F(GatewayTest, NoTokensMayBeAskedFor) {
  StartAll();
  const json answer = Json(Post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 0})"));
  EXPECT_EQ(answer["choices"][0]["text"], "") << answer;
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  const HttpResponse streamed =
      Post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 0, "stream": true})");
  EXPECT_EQ(Text(streamed), "");
  ExpectEverythingBack();
}

TEST_F(GatewayTest, ClientsNameTheirRequests) {
  StartAll();
  const HttpResponse named =
      Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1, "request_id": "mine"})");
  EXPECT_EQ(Json(named)["id"], "cmpl-mine");
  HttpClient client(port());
  const std::string body = R"({"prompt": "x", "max_tokens": 1})";
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: trace-1\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(client.ReadResponse().headers.at("x-request-id"), "trace-1");
}

}  // namespace
}  // namespace lockstep::testing
