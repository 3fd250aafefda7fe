#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

std::vector<OutputCase> HermesCases() {
  return {
      {"OneCall", "hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Rome\"}}\n</tool_call>",
       Call("get_weather", R"({"city": "Rome"})")},
      {"TwoCalls", "hermes",
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Oslo\"}}\n</tool_call>",
       Call("now", "{}") + Call("get_weather", R"({"city": "Oslo"})")},
      {"CallsWithoutSpace", "hermes",
       R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)"
       R"(<tool_call>{"name":"now"}</tool_call>)",
       Call("now", "{}") + Call("now", "{}")},
      {"TextBeforeAndBehind", "hermes",
       "I look it up.\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n\n  "
       "Done.\n",
       Content("I look it up.") + Call("now", "{}") + Content("  Done.\n")},
      {"ThinkingBeforeACall", "hermes",
       "<think>\nI need the time.\n</think>\n\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
       Reasoning("I need the time.") + Call("now", "{}")},
      {"CallInsideThinking", "hermes",
       "<think>\nThe time.\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>\n</think>\n\nDone.",
       Reasoning("The time.") + Call("now", "{}") + Content("Done.")},
      {"MarkerMentionedInThinking", "hermes", "<think>\nI write <tool_call> now.\n</think>\nHi.",
       Reasoning("I write <tool_call> now.") + Content("Hi.")},
      {"NestedArguments", "hermes",
       R"(<tool_call>{"name": "search", "arguments": {"tags": )"
       R"([["a", {"b": [1, -2.5e3]}], true, null], "free": {}}}</tool_call>)",
       Call("search", R"({"tags": [["a", {"b": [1, -2.5e3]}], true, null], "free": {}})")},
      {"MarkersInStrings", "hermes",
       R"(<tool_call>{"name": "search", "arguments": )"
       R"({"query": "</tool_call> <tool_call> } ] <think>"}}</tool_call>)",
       Call("search", R"({"query": "</tool_call> <tool_call> } ] <think>"})")},
      {"EscapesAndUnicode", "hermes",
       "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": "
       "\"\\\"a\\\\\\n\\u00e9\\ud83d\\ude00 \xE6\x9D\xB1\xE4\xBA\xAC "
       "\xF0\x9F\x98\x80\"}}</tool_call>",
       Call("search",
            "{\"query\": \"\\\"a\\\\\\n\\u00e9\\ud83d\\ude00 \xE6\x9D\xB1\xE4\xBA\xAC "
            "\xF0\x9F\x98\x80\"}")},
      {"HalfASurrogatePair", "hermes",
       R"(<tool_call>{"name": "search", "arguments": )"
       R"({"query": "\ud83d\ud83d\ude00 \ude00 \ud83d\n\ud83d"}}</tool_call>)",
       Call("search", R"({"query": "\ufffd\ud83d\ude00 \ufffd \ufffd\n\ufffd"})")},
      {"LineBreakInAString", "hermes",
       "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"a\n\tb\x01\"}}</tool_call>",
       Call("search", R"({"query": "a\n\tb\u0001"})")},
  };
}

std::vector<OutputCase> OddHermesCases() {
  return {
      {"ArgumentsBeforeTheName", "hermes",
       R"(<tool_call>{"arguments": {"city": "Rome"}, "name": "get_weather"}</tool_call>)",
       Call("get_weather", R"({"city": "Rome"})")},
      {"ArgumentsInAString", "hermes",
       R"(<tool_call>{"name": "get_weather", "arguments": )"
       R"("{\"city\": \"R\\u00f6me\"}"}</tool_call>)",
       Call("get_weather", R"({"city": "R\u00f6me"})")},
      {"ArgumentsInAStringBeforeTheName", "hermes",
       R"(<tool_call>{"arguments": "{\"days\": 2}", "name": "get_weather"}</tool_call>)",
       Call("get_weather", R"({"days": 2})")},
      {"NoArgumentsInAString", "hermes",
       R"(<tool_call>{"name": "now", "arguments": ""}</tool_call>)", Call("now", "{}")},
      {"NullArguments", "hermes", R"(<tool_call>{"name": "now", "arguments": null}</tool_call>)",
       Call("now", "{}")},
      {"OtherMembers", "hermes",
       R"(<tool_call>{"id": 17, "name": "now", "x": [{"name": "no"}], )"
       R"("parameters": {}, "y": 1.5}</tool_call>)",
       Call("now", "{}")},
      {"EscapedKey", "hermes", R"(<tool_call>{"n\u0061me": "n\u006fw"}</tool_call>)",
       Call("now", "{}")},
      {"UnknownName", "hermes", R"(<tool_call>{"name": "other", "arguments": {}}</tool_call>)",
       Call("other", "{}")},
      {"SeveralObjectsInOneTag", "hermes",
       "<tool_call>\n{\"name\": \"now\"}\n{\"name\": \"now\", \"arguments\": {\"a\": "
       "1}}\n</tool_call>",
       Call("now", "{}") + Call("now", R"({"a": 1})")},
      {"ListInATag", "hermes", R"(<tool_call>[{"name": "now"}, {"name": "now"}]</tool_call>)",
       Call("now", "{}") + Call("now", "{}")},
      {"EndTagMissing", "hermes", R"(<tool_call>{"name": "now", "arguments": {}})",
       Call("now", "{}")},
      {"BracesMissingAtTheEnd", "hermes", R"(<tool_call>{"name": "now", "arguments": {"a": 1})",
       Call("now", R"({"a": 1})")},
      {"OneBraceTooMuch", "hermes",
       "<tool_call>{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>\nYes",
       Call("now", "{}") + Content("}Yes")},
  };
}

std::vector<OutputCase> BrokenHermesCases() {
  return {
      {"CutInTheMarker", "hermes", "Hello <tool_ca", Content("Hello <tool_ca")},
      {"CutInTheName", "hermes", "Hello\n<tool_call>\n{\"name\": \"get_we",
       Content("Hello\n<tool_call>\n{\"name\": \"get_we")},
      {"CutBehindTheName", "hermes", "<tool_call>\n{\"name\": \"now\", ",
       Content("<tool_call>\n{\"name\": \"now\", ")},
      {"CutInTheArguments", "hermes",
       R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Ro)",
       BrokenCall("get_weather", R"({"city": "Ro)")},
      {"CutInAnEscape", "hermes", R"(<tool_call>{"name": "search", "arguments": {"query": "a\u00)",
       BrokenCall("search", R"({"query": "a)") + Content(R"(\u00)")},
      {"NoJson", "hermes", "Text <tool_call>get_weather(Rome)</tool_call> more",
       Content("Text <tool_call>get_weather(Rome)</tool_call> more")},
      {"EmptyTag", "hermes", "<tool_call>\n</tool_call>", Content("<tool_call>\n</tool_call>")},
      {"NoName", "hermes", R"(<tool_call>{"arguments": {"city": "Rome"}}</tool_call>)",
       Content(R"(<tool_call>{"arguments": {"city": "Rome"}}</tool_call>)")},
      {"EmptyName", "hermes", R"(<tool_call>{"name": "", "arguments": {}}</tool_call>)",
       Content(R"(<tool_call>{"name": "", "arguments": {}}</tool_call>)")},
      {"NameIsNoString", "hermes", R"(<tool_call>{"name": 7, "arguments": {}}</tool_call>)",
       Content(R"(<tool_call>{"name": 7, "arguments": {}}</tool_call>)")},
      {"TwoNames", "hermes", R"(<tool_call>{"name": "now", "name": "search"}</tool_call>)",
       Content(R"(<tool_call>{"name": "now", "name": "search"}</tool_call>)")},
      {"TwoArguments", "hermes",
       R"(<tool_call>{"name": "now", "arguments": {"a": 1}, "parameters": {}}</tool_call>)",
       BrokenCall("now", R"({"a": 1})") + Content(R"(, "parameters": {}})")},
      {"ArgumentsAreAList", "hermes", R"(<tool_call>{"name": "now", "arguments": [1]}</tool_call>)",
       Content(R"(<tool_call>{"name": "now", "arguments": [1]}</tool_call>)")},
      {"StringHoldsNoObject", "hermes",
       R"(<tool_call>{"name": "now", "arguments": "yes"}</tool_call>)",
       Content(R"(<tool_call>{"name": "now", "arguments": "yes"}</tool_call>)")},
      {"StringHoldsMore", "hermes",
       R"(<tool_call>{"name": "now", "arguments": "{} {}"}</tool_call>)",
       Content(R"(<tool_call>{"name": "now", "arguments": "{} {}"}</tool_call>)")},
      {"BadArguments", "hermes",
       R"(<tool_call>{"name": "now", "arguments": {"a": tru, "b": 1}}</tool_call> end)",
       BrokenCall("now", R"({"a": tru)") + Content(R"(, "b": 1}} end)")},
      {"SingleQuotes", "hermes", "<tool_call>{'name': 'now'}</tool_call>",
       Content("<tool_call>{'name': 'now'}</tool_call>")},
      {"MarkerBehindAFalseMarker", "hermes",
       "<tool_call>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
       Content("<tool_call>") + Call("now", "{}")},
      {"HalfAMarkerBehindAMarker", "hermes",
       R"(<tool_call></tool_<tool_call>{"name": "now"}</tool_call>)",
       Content("<tool_call></tool_") + Call("now", "{}")},
      {"SecondObjectIsNone", "hermes", "<tool_call>{\"name\": \"now\"}, {\"a\": 1}</tool_call> x",
       Call("now", "{}") + Content(" {\"a\": 1} x")},
      {"EndTagAlone", "hermes", "a </tool_call> b", Content("a </tool_call> b")},
  };
}

std::vector<OutputCase> LlamaCases() {
  return {
      {"OneCall", "llama3", R"({"name": "get_weather", "parameters": {"city": "Rome"}})",
       Call("get_weather", R"({"city": "Rome"})")},
      {"PythonTag", "llama3", R"(<|python_tag|>{"name": "now", "parameters": {}})",
       Call("now", "{}")},
      {"Semicolons", "llama3",
       R"({"name": "now", "parameters": {}}; {"name": "search", "parameters": {"query": ";"}};)",
       Call("now", "{}") + Call("search", R"({"query": ";"})")},
      {"Lines", "llama3", "\n{\"name\": \"now\"}\n{\"name\": \"now\"}\n",
       Call("now", "{}") + Call("now", "{}")},
      {"TypeMember", "llama3", R"({"type": "function", "name": "now", "parameters": {}})",
       Call("now", "{}")},
      {"ArgumentsBeforeTheName", "llama3", R"({"parameters": {"days": 1}, "name": "get_weather"})",
       Call("get_weather", R"({"days": 1})")},
      {"UnknownName", "llama3", R"({"name": "other", "parameters": {}})",
       Content(R"({"name": "other", "parameters": {}})")},
      {"OtherJson", "llama3", "{\"temperature\": 21, \"wind\": [1, 2]}\n",
       Content("{\"temperature\": 21, \"wind\": [1, 2]}\n")},
      {"TextBefore", "llama3", R"(Like this: {"name": "now", "parameters": {}})",
       Content(R"(Like this: {"name": "now", "parameters": {}})")},
      {"TextBehind", "llama3", R"({"name": "now", "parameters": {}} is the call.)",
       Call("now", "{}") + Content(" is the call.")},
      {"PythonTagInText", "llama3", R"(Well.<|python_tag|>{"name": "now"})",
       Content("Well.") + Call("now", "{}")},
      {"CodeBehindThePythonTag", "llama3", "<|python_tag|>print(1)",
       Content("<|python_tag|>print(1)")},
      {"SecondIsUnknown", "llama3", R"({"name": "now"}; {"name": "other"})",
       Call("now", "{}") + Content(R"( {"name": "other"})")},
      {"CutInTheArguments", "llama3", R"({"name": "search", "parameters": {"query": "a)",
       BrokenCall("search", R"({"query": "a)")},
      {"CutBeforeTheName", "llama3", R"({"name": "sear)", Content(R"({"name": "sear)")},
      {"Brace", "llama3", "{ is a brace", Content("{ is a brace")},
  };
}

std::vector<OutputCase> Llama4Cases() {
  return {
      {"Message", "llama4", "{\"name\": \"now\", \"parameters\": {}}\n", Call("now", "{}")},
      {"Tags", "llama4",
       R"(<|python_start|>{"name": "now"}; )"
       R"({"name": "search", "parameters": {"a": 1}}<|python_end|>)",
       Call("now", "{}") + Call("search", R"({"a": 1})")},
      {"UnknownName", "llama4", R"(<|python_start|>{"name": "other"}<|python_end|>)",
       Content(R"(<|python_start|>{"name": "other"}<|python_end|>)")},
  };
}

std::vector<OutputCase> MistralListCases() {
  return {
      {"List", "mistral",
       R"([TOOL_CALLS][{"name": "now", "arguments": {}}, )"
       R"({"name": "search", "arguments": {"query": "]"}}])",
       Call("now", "{}") + Call("search", R"({"query": "]"})")},
      {"SpaceInTheList", "mistral", "[TOOL_CALLS] [ {\"name\": \"now\", \"arguments\": {} } ] \nok",
       Call("now", "{}") + Content("ok")},
      {"TextBefore", "mistral", R"(Let me see. [TOOL_CALLS][{"name": "now"}])",
       Content("Let me see.") + Call("now", "{}")},
      {"ListWithId", "mistral",
       R"([TOOL_CALLS][{"name": "now", "arguments": {}, "id": "a1b2c3d4e"}])", Call("now", "{}")},
      {"ListIsCut", "mistral", R"([TOOL_CALLS][{"name": "now"}, {"name": "se)",
       Call("now", "{}") + Content(R"( {"name": "se)")},
      {"EmptyList", "mistral", "[TOOL_CALLS][] x", Content("[TOOL_CALLS][] x")},
      {"ObjectWithoutList", "mistral", R"([TOOL_CALLS]{"name": "now", "arguments": {}})",
       Call("now", "{}")},
      {"NoMarker", "mistral", R"([{"name": "now", "arguments": {}}])",
       Content(R"([{"name": "now", "arguments": {}}])")},
  };
}

}  // namespace

std::vector<OutputCase> JsonCases() {
  std::vector<OutputCase> all;
  for (auto cases : {HermesCases(), OddHermesCases(), BrokenHermesCases(), LlamaCases(),
                     Llama4Cases(), MistralListCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace lockstep::router
