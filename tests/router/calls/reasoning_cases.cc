#include "tests/router/calls/output_cases.h"

namespace lockstep::router {

std::vector<OutputCase> ReasoningCases() {
  return {
      {"Both", "think", "<think>\nHm.\n</think>\n\nHello.\n",
       Reasoning("Hm.") + Content("Hello.\n")},
      {"OnlyContent", "think", "\n\nHello.\n\n", Content("\n\nHello.\n\n")},
      {"Nothing", "think", "", {}},
      {"OnlySpace", "think", " \n", Content(" \n")},
      {"EmptyReasoning", "think", "<think>\n\n</think>\n\nHello.", Content("Hello.")},
      {"TheTemplateOpenedIt", "think", "Hm.\n</think>\n\nHello.",
       Reasoning("Hm.") + Content("Hello."), true},
      {"TheTemplateOpenedItAndTheModelToo", "think", "<think>\nHm.\n</think>\nHello.",
       Reasoning("Hm.") + Content("Hello."), true},
      {"NeverClosed", "think", "Hm.\nAnd then\n", Reasoning("Hm.\nAnd then\n"), true},
      {"CutInTheEndMarker", "think", "<think>Hm.\n</thi", Reasoning("Hm.\n</thi")},
      {"IndentedCode", "think", "<think>\n  a\n</think>\n\n    code\n",
       Reasoning("  a") + Content("    code\n")},
      {"WindowsLines", "think", "<think>\r\nHm.\r\n</think>\r\n\r\nHello.",
       Reasoning("Hm.") + Content("Hello.")},
      {"MarkerInTheMiddle", "think", "The tag <think> opens, </think> ends.",
       Content("The tag <think> opens, </think> ends.")},
      {"MarkerInReasoning", "think", "<think>I am in <think> now.</think>Ok",
       Reasoning("I am in <think> now.") + Content("Ok")},
      {"HalfMarkers", "think", "<think>a < b <</think>c </ d",
       Reasoning("a < b <") + Content("c </ d")},
      {"LongRunsOfSpace", "think", "<think>a" + std::string(100, ' ') + "</think>b",
       Reasoning("a" + std::string(64, ' ')) + Content("b")},
      {"CallMarkersAreText", "think", "<think>x</think><tool_call>{\"name\": \"now\"}</tool_call>",
       Reasoning("x") + Content("<tool_call>{\"name\": \"now\"}</tool_call>")},
      {"NotClosedBeforeTheCall", "hermes", "\n<tool_call>{\"name\": \"now\"}</tool_call>",
       Call("now", "{}"), true},
      {"SpaceBeforeTheMarker", "hermes", "\n<think>a</think>b", Reasoning("a") + Content("b")},
  };
}

}  // namespace lockstep::router
