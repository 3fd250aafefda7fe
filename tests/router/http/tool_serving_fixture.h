#pragma once

#include <gtest/gtest.h>

#include <string>

#include "router/calls/output_format.h"
#include "tests/router/http/gateway_fixture.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::testing {

// Prints every text of a chat with tools.
inline constexpr char kToolTemplate[] =
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function | tojson }}{% endfor %}"
    "{{ m.tool_call_id or '' }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking %}<think>\n{% endif %}{% endif %}";
// As the format "hermes" writes a call.
inline constexpr char kToolCall[] =
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>";

// A gateway whose model writes calls like Hermes, and says what a test wrote.
class ToolServingTest : public GatewayTest {
 protected:
  ToolServingTest() {
    model_ = MakeByteModel(kToolTemplate, kContextTokens);
    model_.config.generation_defaults.temperature = 0;
    model_.output_format = *router::FindOutputFormat("hermes");
  }

  static nlohmann::json ToolBody() {
    return {{"messages", {{{"role", "user"}, {"content", "2+2?"}}}},
            {"tools",
             {{{"type", "function"},
               {"function", {{"name", "add"}, {"parameters", {{"type", "object"}}}}}}}}};
  }
  // The model answers this chat with this text, and ends. It says letters behind that.
  void Script(const nlohmann::json& body, const std::string& text) {
    const HttpResponse tokens = Post("/tokenize", body.dump());
    ASSERT_EQ(tokens.status, 200) << tokens.body;
    const uint32_t begin = Json(tokens)["count"];
    SetScript([begin, text](uint32_t position) -> TokenId {
      const size_t place = position - begin;
      if (position >= begin && place < text.size()) return static_cast<unsigned char>(text[place]);
      return position >= begin && place == text.size()
                 ? ByteTokenizer::kEnd
                 : static_cast<unsigned char>(Letter(position));
    });
  }
};

}  // namespace lockstep::testing
