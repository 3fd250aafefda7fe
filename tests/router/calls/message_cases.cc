#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

std::vector<OutputCase> HarmonyCases() {
  return {
      {"ThinkingAndAnswer", "harmony",
       "<|channel|>analysis<|message|>We think.\n<|end|><|start|>assistant<|channel|>final"
       "<|message|>Hello!<|return|>",
       Reasoning("We think.\n") + Content("Hello!")},
      {"Call", "harmony",
       "<|channel|>analysis<|message|>Time.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
       Reasoning("Time.") + Call("get_weather", R"({"city":"Rome"})")},
      {"RecipientBeforeTheChannel", "harmony",
       "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
       Call("now", "{}")},
      {"RecipientFirst", "harmony", " to=functions.now<|channel|>commentary<|message|>{}",
       Call("now", "{}")},
      {"TwoCalls", "harmony",
       "<|channel|>commentary to=functions.now<|message|>{}<|call|><|start|>assistant<|channel|>"
       "commentary to=functions.now<|message|>{\"a\": \"<|call|>\"}<|call|>",
       Call("now", "{}") + Call("now", R"({"a": "<|call|>"})")},
      {"Preamble", "harmony",
       "<|channel|>commentary<|message|>I search.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.search<|message|>{\"query\": \"x\"}<|call|>",
       Content("I search.") + Call("search", R"({"query": "x"})")},
      {"KnownNameWithoutPrefix", "harmony", "<|channel|>commentary to=now<|message|>{}<|call|>",
       Call("now", "{}")},
      {"ToolOfTheModel", "harmony", "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
       Reasoning("print(1)")},
      {"NoArguments", "harmony", "<|channel|>commentary to=functions.now<|message|><|call|>",
       Call("now", "{}")},
      {"EndIsMissing", "harmony", "<|channel|>analysis<|message|>A<|channel|>final<|message|>B",
       Reasoning("A") + Content("B")},
      {"TokenInAnAnswer", "harmony", "<|channel|>final<|message|>a < b <|x|> <|constrain|>c",
       Content("a < b <|x|> <|constrain|>c")},
      {"PlainText", "harmony", "Hello <|there", Content("Hello <|there")},
      {"PlainTextThatBeginsLikeARecipient", "harmony", "to be", Content("to be")},
      {"NoJson", "harmony", "<|channel|>commentary to=functions.now<|message|>now please<|end|>",
       Content("<|channel|>commentary to=functions.now<|message|>now please")},
      {"BadJson", "harmony", "<|channel|>commentary to=functions.now<|message|>{\"a\": }<|call|>",
       BrokenCall("now", R"({"a": )") + Content("}")},
      {"TextBehindTheCall", "harmony",
       "<|channel|>commentary to=functions.now<|message|>{} \nand text<|call|>",
       Call("now", "{}") + Content("and text")},
      {"CutInTheArguments", "harmony",
       "<|channel|>commentary to=functions.search<|message|>{\"query\": \"a\\",
       BrokenCall("search", R"({"query": "a)") + Content("\\")},
      {"CutInTheHeader", "harmony", "<|channel|>final<|message|>A<|end|><|start|>assistant<|chan",
       Content("A")},
      {"CutBeforeTheArguments", "harmony", "<|channel|>commentary to=functions.now<|message|> ",
       Content("<|channel|>commentary to=functions.now<|message|> ")},
      {"HeaderWithoutABody", "harmony", "<|channel|>final<|end|>A", Content("<|channel|>finalA")},
      {"OpenReasoning", "harmony", "goes on<|end|><|start|>assistant<|channel|>final<|message|>A",
       Reasoning("goes on") + Content("A"), true},
  };
}

std::vector<OutputCase> PythonicCases() {
  return {
      {"OneCall", "pythonic", R"([get_weather(city="Rome", days=3)])",
       Call("get_weather", R"({"city":"Rome","days":3})")},
      {"TwoCalls", "pythonic", "[now(), search(query='a \"b\"', exact=True,)]\n",
       Call("now", "{}") + Call("search", R"({"query":"a \"b\"","exact":true})")},
      {"Tags", "pythonic", "<|python_start|>[now( )]<|python_end|>", Call("now", "{}")},
      {"NestedValues", "pythonic",
       "[ search ( tags = [1, -2.5, 'x', None, [], {}], free={'a': {\"b\": False}, 'c': (1, 2)} ) "
       "]",
       Call("search", R"({"tags":[1,-2.5,"x",null,[],{}],"free":{"a":{"b":false},"c":[1,2]}})")},
      {"Escapes", "pythonic",
       R"([search(query='\n\'\"\\\t\x41\u00e9\U0001F600\ud83d\ude00\101\d\0')])",
       Call("search",
            "{\"query\":\"\\n'\\\"\\\\\\tA\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80"
            "A\\\\d\\u0000\"}")},
      {"BracketsInStrings", "pythonic", R"([search(query=")] , <|python_end|>")])",
       Call("search", R"({"query":")] , <|python_end|>"})")},
      {"Unicode", "pythonic", "[search(query=\"\xE6\x9D\xB1\xF0\x9F\x98\x80\")]",
       Call("search", "{\"query\":\"\xE6\x9D\xB1\xF0\x9F\x98\x80\"}")},
      {"UnknownName", "pythonic", "[other(a=1)]", Content("[other(a=1)]")},
      {"SecondNameIsUnknown", "pythonic", "[now(), other(a=1)]",
       Call("now", "{}") + Content(" other(a=1)]")},
      {"List", "pythonic", "[1, 2, 3]", Content("[1, 2, 3]")},
      {"Link", "pythonic", "[now](http://now)", Content("[now](http://now)")},
      {"TextBefore", "pythonic", "See [now()]", Content("See [now()]")},
      {"TextBehind", "pythonic", "[now()] is it", Call("now", "{}") + Content(" is it")},
      {"PositionalArgument", "pythonic", "[search(\"x\")]", Content("[search(\"x\")]")},
      {"Variable", "pythonic", "[search(query=x)]",
       BrokenCall("search", R"({"query":)") + Content("x)]")},
      {"KeywordTwice", "pythonic", "[get_weather(days=1, days=2)]",
       BrokenCall("get_weather", R"({"days":1)") + Content(" days=2)]")},
      {"Cut", "pythonic", "[search(query=\"ab", BrokenCall("search", R"({"query":"ab)")},
      {"CutBehindACall", "pythonic", "[now(), sea", Call("now", "{}") + Content(" sea")},
      {"ListEndMissing", "pythonic", "[now()", Call("now", "{}")},
      {"Empty", "pythonic", "[]", Content("[]")},
  };
}

}  // namespace

std::vector<OutputCase> MessageCases() {
  std::vector<OutputCase> all = HarmonyCases();
  for (OutputCase& item : PythonicCases()) all.push_back(std::move(item));
  return all;
}

}  // namespace lockstep::router
