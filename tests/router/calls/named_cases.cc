#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

std::vector<OutputCase> DeepSeekCases() {
  return {
      {"TwoCalls", "deepseek_v3",
       "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
       "```json\n{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       Content("Hm.") + Call("get_weather", R"({"city": "Rome"})") + Call("now", "{}")},
      {"FenceInAString", "deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n"
       "{\"query\": \"```<｜tool▁call▁end｜>\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       Call("search", R"({"query": "```<｜tool▁call▁end｜>"})")},
      {"NoFence", "deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n{\"a\": 1}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       Call("now", R"({"a": 1})")},
      {"OuterTagMissing", "deepseek_v3",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>ok",
       Call("now", "{}") + Content("ok")},
      {"Cut", "deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n"
       "{\"query\": \"a",
       BrokenCall("search", R"({"query": "a)")},
      {"CutBehindTheArguments", "deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{}\n",
       Call("search", "{}")},
      {"NoJson", "deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```python\nf()```",
       Content("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n"
               "```python\nf()```")},
      {"ThinkingBefore", "deepseek_v3",
       "<think>\nA\n\nB\n</think>\n\nC<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"
       "<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       Reasoning("A\n\nB") + Content("C") + Call("now", "{}")},
      {"TwoCalls", "deepseek_v31",
       "A<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"R\"}"
       "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       Content("A") + Call("get_weather", R"({"city": "R"})") + Call("now", "{}")},
      {"NoArguments", "deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜><｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       Call("now", "{}")},
      {"CallEndMissing", "deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
       Call("now", "{}")},
      {"OtherCharacterOfTheSameBytes", "deepseek_v31", "A <｝ <｜tool▂ <｜tool▁calls▁begiｎ",
       Content("A <｝ <｜tool▂ <｜tool▁calls▁begiｎ")},
      {"BadJson", "deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{\"a\" 1}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       BrokenCall("now", R"({"a" )") + Content("1}<｜tool▁call▁end｜>")},
  };
}

std::vector<OutputCase> KimiCases() {
  return {
      {"TwoCalls", "kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"days\": 2}<|tool_call_end|><|tool_call_begin|>now:1"
       "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       Call("get_weather", R"({"days": 2})") + Call("now", "{}")},
      {"NameIsEmpty", "kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}",
       Content("<|tool_calls_section_begin|><|tool_call_begin|>functions.:0"
               "<|tool_call_argument_begin|>{}")},
  };
}

std::vector<OutputCase> MistralCases() {
  return {
      {"OneCall", "mistral", R"([TOOL_CALLS]get_weather[ARGS]{"city": "Rome"})",
       Call("get_weather", R"({"city": "Rome"})")},
      {"TwoCalls", "mistral", R"(Text[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{"a": "[ARGS]"})",
       Content("Text") + Call("now", "{}") + Call("now", R"({"a": "[ARGS]"})")},
      {"WithoutArgsToken", "mistral", R"([TOOL_CALLS]now{"a": 1})", Call("now", R"({"a": 1})")},
      {"CallId", "mistral", R"([TOOL_CALLS]now[CALL_ID]a1B2c3D4e[ARGS]{})", Call("now", "{}")},
      {"ThinkingBefore", "mistral", "[THINK]Hm [x]?[/THINK]Yes.[TOOL_CALLS]now[ARGS]{}",
       Reasoning("Hm [x]?") + Content("Yes.") + Call("now", "{}")},
      {"TextBehind", "mistral", "[TOOL_CALLS]now[ARGS]{}\nDone.",
       Call("now", "{}") + Content("Done.")},
      {"Cut", "mistral", R"([TOOL_CALLS]search[ARGS]{"query": "a)",
       BrokenCall("search", R"({"query": "a)")},
      {"CutInTheName", "mistral", "[TOOL_CALLS]sea", Content("[TOOL_CALLS]sea")},
      {"Brackets", "mistral", "a[0] [TOOL] [/THINK] [[TOOL_CALLS",
       Content("a[0] [TOOL] [/THINK] [[TOOL_CALLS")},
  };
}

std::vector<OutputCase> GemmaCases() {
  return {
      {"OneCall", "gemma4",
       "<|tool_call>call:get_weather{city:<|\"|>Ro\"me<|\"|>,days:3}<tool_call|>",
       Call("get_weather", R"({"city":"Ro\"me","days":3})")},
      {"TwoCalls", "gemma4",
       "Ok <|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>",
       Content("Ok") + Call("now", "{}") + Call("now", "{}")},
      {"NestedValues", "gemma4",
       "<|tool_call>call:search{tags:[<|\"|>a,]<|\"|>,{b:true,c:null},[]],exact:false,"
       "<|\"|>free<|\"|>:{},limit:-1.5}<tool_call|>",
       Call("search",
            R"({"tags":["a,]",{"b":true,"c":null},[]],"exact":false,"free":{},"limit":-1.5})")},
      {"BareStrings", "gemma4",
       "<|tool_call>call:get_weather{unit:celsius,city:New York}<tool_call|>",
       Call("get_weather", R"({"unit":"celsius","city":"New York"})")},
      {"MarkersInStrings", "gemma4",
       "<|tool_call>call:search{query:<|\"|><tool_call|> <|\"<|\"|>}<tool_call|>",
       Call("search", R"({"query":"<tool_call|> <|\""})")},
      {"Thinking", "gemma4",
       "<|channel>thought\nHm.\n<channel|>Yes.\n<|channel>thought\nAgain\n<channel|><|tool_call>"
       "call:now{}<tool_call|>",
       Reasoning("Hm.") + Content("Yes.") + Reasoning("Again") + Call("now", "{}")},
      {"Cut", "gemma4", "<|tool_call>call:search{query:<|\"|>a <|",
       BrokenCall("search", R"({"query":"a )") + Content("<|")},
      {"BadKey", "gemma4", "<|tool_call>call:now{a b:1}<tool_call|>.",
       BrokenCall("now", R"({"a")") + Content("b:1}.")},
  };
}

}  // namespace

std::vector<OutputCase> NamedCases() {
  std::vector<OutputCase> all;
  for (auto cases : {DeepSeekCases(), KimiCases(), MistralCases(), GemmaCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace lockstep::router
