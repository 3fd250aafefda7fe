#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

std::vector<OutputCase> CoderCases() {
  return {
      {"OneCall", "qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
       Call("get_weather", R"({"city":"Rome","days":3})")},
      {"NoArguments", "qwen3_coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>",
       Call("now", "{}")},
      {"TwoCalls", "qwen3_coder",
       "Both:\n\n<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n"
       "<function=search>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>\nEnd",
       Content("Both:") + Call("now", "{}") + Call("search", R"({"query":"a"})") + Content("End")},
      {"TwoFunctionsInOneTag", "qwen3_coder",
       "<tool_call>\n<function=now>\n</function>\n<function=now>\n</function>\n</tool_call>",
       Call("now", "{}") + Call("now", "{}")},
      {"StringsAreRaw", "qwen3_coder",
       "<tool_call>\n<function=search>\n<parameter=query>\n\n  x = \"1\\n\"\n\n\n</parameter>\n"
       "</function>\n</tool_call>",
       Call("search", R"({"query":"\n  x = \"1\\n\"\n\n"})")},
      {"MarkersInStrings", "qwen3_coder",
       "<tool_call>\n<function=search>\n<parameter=query>\n<tool_call></function> </tool_call>"
       "<parameter=x></param\n</parameter>\n</function>\n</tool_call>",
       Call("search", R"({"query":"<tool_call></function> </tool_call><parameter=x></param"})")},
      {"NumbersInStrings", "qwen3_coder",
       "<tool_call><function=search><parameter=query>42</parameter></function></tool_call>",
       Call("search", R"({"query":"42"})")},
      {"Types", "qwen3_coder",
       "<tool_call><function=search><parameter=limit>None</parameter>"
       "<parameter=tags>[\"a\", {\"b\": 1}]</parameter><parameter=exact>True</parameter>"
       "<parameter=id>7</parameter><parameter=free>{\"a\": [2]}</parameter></function></tool_call>",
       Call("search",
            R"({"limit":null,"tags":["a", {"b": 1}],"exact":true,"id":7,"free":{"a": [2]}})")},
      {"TypesThatDoNotFit", "qwen3_coder",
       "<tool_call><function=search><parameter=limit>many</parameter>"
       "<parameter=tags>['a']</parameter><parameter=id>x7</parameter>"
       "<parameter=free>so free</parameter></function></tool_call>",
       Call("search", R"({"limit":"many","tags":"['a']","id":"x7","free":"so free"})")},
      {"UnknownFunction", "qwen3_coder",
       "<tool_call><function=other><parameter=a>1</parameter><parameter=b>x</parameter>"
       "</function></tool_call>",
       Call("other", R"({"a":1,"b":"x"})")},
      {"Unicode", "qwen3_coder",
       "<tool_call><function=search><parameter=query>\xE6\x9D\xB1 \xF0\x9F\x98\x80\x01"
       "</parameter></function></tool_call>",
       Call("search", "{\"query\":\"\xE6\x9D\xB1 \xF0\x9F\x98\x80\\u0001\"}")},
      {"OuterTagMissing", "qwen3_coder", "Now:\n<function=now>\n</function>\n</tool_call>\nEnd",
       Content("Now:") + Call("now", "{}") + Content("End")},
      {"OuterTagMissingAtBothEnds", "qwen3_coder", "<function=now>\n</function>\nEnd",
       Call("now", "{}") + Content("End")},
      {"FunctionEndMissing", "qwen3_coder",
       "<tool_call><function=search><parameter=query>a</parameter></tool_call> b",
       Call("search", R"({"query":"a"})") + Content(" b")},
      {"EmptyString", "qwen3_coder",
       "<tool_call><function=search><parameter=query>\n</parameter></function></tool_call>",
       Call("search", R"({"query":""})")},
      {"ThinkingBefore", "qwen3_coder",
       "<think>\nHm.\n</think>\n\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       Reasoning("Hm.") + Call("now", "{}")},
  };
}

std::vector<OutputCase> BrokenCoderCases() {
  return {
      {"CutInAString", "qwen3_coder", "<tool_call>\n<function=search>\n<parameter=query>\nlong te",
       BrokenCall("search", R"({"query":"long te)")},
      {"CutInTheEndOfAString", "qwen3_coder",
       "<tool_call>\n<function=search>\n<parameter=query>\ntext\n</para",
       BrokenCall("search", R"({"query":"text)") + Content("\n</para")},
      {"CutInANumber", "qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=days>\n1",
       BrokenCall("get_weather", R"({"days":)") + Content("\n1")},
      {"CutBehindAParameter", "qwen3_coder",
       "<tool_call><function=get_weather><parameter=days>1</parameter>\n",
       BrokenCall("get_weather", R"({"days":1)") + Content("\n")},
      {"CutInTheName", "qwen3_coder", "<tool_call>\n<function=get_wea",
       Content("<tool_call>\n<function=get_wea")},
      {"TextInTheTag", "qwen3_coder", "<tool_call>\nnow()\n</tool_call>",
       Content("<tool_call>\nnow()\n</tool_call>")},
      {"EmptyTag", "qwen3_coder", "<tool_call>\n</tool_call> x",
       Content("<tool_call>\n</tool_call> x")},
      {"TextInTheFunction", "qwen3_coder", "<tool_call><function=now>text</function></tool_call>",
       Content("<tool_call><function=now>text</function></tool_call>")},
      {"SameParameterTwice", "qwen3_coder",
       "<tool_call><function=get_weather><parameter=days>1</parameter><parameter=days>2</parameter>"
       "</function></tool_call>",
       BrokenCall("get_weather", R"({"days":1)") +
           Content("<parameter=days>2</parameter></function>")},
      {"TextBetweenParameters", "qwen3_coder",
       "<tool_call><function=get_weather><parameter=days>1</parameter> and <parameter=city>x"
       "</parameter></function></tool_call> end",
       BrokenCall("get_weather", R"({"days":1)") +
           Content(" and <parameter=city>x</parameter></function> end")},
      {"FunctionIsMentioned", "qwen3_coder", "Write <function=name> first.",
       Content("Write <function=name> first.")},
      {"JsonInTheTag", "qwen3_coder", "<tool_call>{\"name\": \"now\"}</tool_call>",
       Content("<tool_call>{\"name\": \"now\"}</tool_call>")},
  };
}

std::vector<OutputCase> GlmCases() {
  return {
      {"OneCall", "glm47",
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value>"
       "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>",
       Call("get_weather", R"({"city":"Rome","days":3})")},
      {"LinesOfGlm45", "glm47",
       "I look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
       "</tool_call>\n<tool_call>now\n</tool_call>",
       Content("I look.") + Call("get_weather", R"({"city":"Rome"})") + Call("now", "{}")},
      {"NoArguments", "glm47", "<tool_call>now</tool_call>", Call("now", "{}")},
      {"StringsKeepTheirLines", "glm47",
       "<tool_call>search<arg_key>query</arg_key><arg_value>\na</arg_key>\n</arg_value></"
       "tool_call>",
       Call("search", R"({"query":"\na</arg_key>\n"})")},
      {"ThinkingBefore", "glm47", "<think>Time?</think><tool_call>now</tool_call>",
       Reasoning("Time?") + Call("now", "{}")},
      {"ValueMissing", "glm47", "<tool_call>search<arg_key>query</arg_key></tool_call>!",
       Content("<tool_call>search<arg_key>query</arg_key></tool_call>!")},
      {"Cut", "glm47", "<tool_call>search<arg_key>query</arg_key><arg_value>ab",
       BrokenCall("search", R"({"query":"ab)")},
      {"Text", "glm47", "<tool_call>two words</tool_call>",
       Content("<tool_call>two words</tool_call>")},
      {"CutInTheName", "glm47", "<tool_call>sear", Content("<tool_call>sear")},
  };
}

std::vector<OutputCase> AttributeCases() {
  return {
      {"TwoCalls", "deepseek_v32",
       "Sure.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
       "<｜DSML｜parameter name=\"city\" string=\"true\">杭州</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"days\" string=\"false\">5</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n"
       "</｜DSML｜function_calls>",
       Content("Sure.") + Call("get_weather", R"({"city":"杭州","days":5})") + Call("now", "{}")},
      {"TheModelSaysTheType", "deepseek_v32",
       "<｜DSML｜function_calls><｜DSML｜invoke name=\"get_weather\">"
       "<｜DSML｜parameter name=\"days\" string=\"true\">5</｜DSML｜parameter>"
       "<｜DSML｜parameter name=\"city\" string=\"false\">[1]</｜DSML｜parameter>"
       "</｜DSML｜invoke></｜DSML｜function_calls>",
       Call("get_weather", R"({"days":"5","city":[1]})")},
      {"Cut", "deepseek_v32",
       "<｜DSML｜function_calls><｜DSML｜invoke name=\"now\">\n</｜DSML｜inv",
       Content("<｜DSML｜function_calls><｜DSML｜invoke name=\"now\">\n</｜DSML｜inv")},
      {"BadAttribute", "deepseek_v32",
       "<｜DSML｜function_calls><｜DSML｜invoke name=\"now\"><｜DSML｜parameter name=\"a\" "
       "string=\"maybe\">1",
       Content("<｜DSML｜function_calls><｜DSML｜invoke name=\"now\"><｜DSML｜parameter name=\"a\" "
               "string=\"maybe\">1")},
      {"OneCall", "minimax_m2",
       "<think>a</think>\n<minimax:tool_call>\n<invoke name=\"search\">\n"
       "<parameter name=\"query\">x\"y</parameter>\n<parameter name=\"exact\">false</parameter>\n"
       "</invoke>\n</minimax:tool_call>\n",
       Reasoning("a") + Call("search", R"({"query":"x\"y","exact":false})")},
      {"Cut", "minimax_m2", "<minimax:tool_call>\n<invoke name=\"search\">\n<parameter name=\"qu",
       Content("<minimax:tool_call>\n<invoke name=\"search\">\n<parameter name=\"qu")},
  };
}

}  // namespace

std::vector<OutputCase> TaggedCases() {
  std::vector<OutputCase> all;
  for (auto cases : {CoderCases(), BrokenCoderCases(), GlmCases(), AttributeCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace lockstep::router
