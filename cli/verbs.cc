#include "cli/verbs.h"

#include <algorithm>

#include "cli/bench/bench.h"
#include "cli/chat/chat.h"
#include "cli/generate.h"
#include "cli/help.h"
#include "cli/quantize/quantize.h"
#include "cli/serve/serve.h"
#include "cli/serve/upgrade.h"
#include "cli/top/top.h"

namespace lockstep::cli {
namespace {

constexpr OptionSpec kServeOptions[] = {
    {"port", "N", "port of the API; 0 takes a free one (default 8000)"},
    {"host", "ADDRESS", "address to listen at (default 127.0.0.1: this machine only)"},
    {"device", "NAME", "auto, cpu or cuda; auto takes every GPU, or the CPU (default auto)"},
    {"tensor-parallel", "N", "GPUs, or shares of the CPU, that share the model (default 1)"},
    {"workers", "N", "workers on the CPU, which share its cores (default 1)"},
    {"kv-cache-tokens", "N", "tokens that the KV cache of a worker holds"},
    {"kv-dtype", "TYPE", "bf16 or fp8: how the KV cache keeps keys and values"},
    {"weights", "FORM", "auto, packed or bf16: how the codes of quantised weights are kept"},
    {"activations", "TYPE", "bf16 or fp8: what products with FP8 weights multiply, on a GPU"},
    {"speculation", "NAME", "auto, ngram or off: draft tokens where that is faster (default auto)"},
    {"log-dir", "DIR", "folder of the logs (default ~/.cache/lockstep/logs/PORT)"},
    {"worker-flag", "FLAG", "a flag for every worker, as --worker-flag=--max-slots=64; repeatable"},
    {"restart-wait", "TIME", "wait before a program that ended starts again (default 1s)"},
};
constexpr OptionSpec kUpgradeOptions[] = {
    {"port", "N", "port of the `lockstep serve` to upgrade (default 8000)"},
    {"host", "ADDRESS", "its --host (default 127.0.0.1)"},
    {"log-dir", "DIR", "its --log-dir, if it has one"},
};
constexpr OptionSpec kChatOptions[] = {
    {"url", "URL", "the server (default 127.0.0.1:8000)"},
    {"system", "TEXT", "a system message in front of the chat"},
    {"temperature", "NUMBER", "0 takes the likeliest token each time"},
    {"top-p", "NUMBER", "draw from the likeliest tokens that make up this share"},
    {"max-tokens", "N", "length of an answer (default: what the context has room for)"},
    {"seed", "N", "of the draws"},
    {"api-key", "KEY", "the server's key; @FILE reads it from a file"},
    {"tls-ca", "FILE", "PEM certificates of authorities, for https"},
};
constexpr OptionSpec kTopOptions[] = {
    {"url", "URL", "the server, or its address of metrics (default 127.0.0.1:8000)"},
    {"once", "", "print one frame and end"},
};

constexpr OptionSpec kBenchOptions[] = {
    {"url", "URL", "the server; of any make with OpenAI's API (default 127.0.0.1:8000)"},
    {"vs", "URL", "a second server, which gets the same load in turn; the two are compared"},
    {"api", "NAME", "completions, chat or grpc (default completions)"},
    {"model", "NAME", "in requests (default: the first that the server names)"},
    {"api-key", "KEY", "the server's key; @FILE reads it from a file"},
    {"temperature", "NUMBER", "of the draws (default 0: the likeliest token each time)"},
    {"top-p", "NUMBER", "draw from the likeliest tokens that make up this share"},
    {"top-k", "N", "draw from so many of the likeliest tokens"},
    {"data", "KIND", "random, sharegpt:FILE, trace:FILE or scenario:NAME (default random)"},
    {"prompt", "N", "tokens of a random prompt: 512, 512+-50% or 256-768 (default 512)"},
    {"output", "N", "tokens of an answer to a random prompt, likewise (default 128)"},
    {"prefix-tokens", "N", "in front of a random prompt, shared with others (default 0)"},
    {"prefixes", "N", "how many such prefixes there are (default 1)"},
    {"turns", "N", "requests of a random conversation; each begins with the one before"},
    {"vocab", "N", "random ids lie below it (default 250)"},
    {"streams", "N,N,...", "closed loops of so many requests at a time (default 16)"},
    {"rates", "N,N,...", "open loops of so many requests a second, at random times"},
    {"burstiness", "NUMBER", "shape of the gaps: 1 is Poisson, less has bursts (default 1)"},
    {"time-scales", "N,N,...", "factors on the times of a trace (default 1)"},
    {"requests", "N", "end of a load: after so many"},
    {"duration", "TIME", "end of a load: stop sending after this, 10 or 10s or 2m (default 30s)"},
    {"warm-up", "TIME", "what is due earlier does not count (default 0)"},
    {"repeats", "N", "of every load; their spread is the noise (default 1)"},
    {"goodput", "BOUNDS", "of a good answer, as ttft:200ms,tpot:25ms,e2e:3s"},
    {"seed", "N", "of prompts, lengths and times (default 1)"},
    {"timeout", "TIME", "of a request (default 600s)"},
    {"threads", "N", "that send and receive; with grpc connections (default 2)"},
    {"json", "FILE", "writes the result, for `lockstep bench compare`"},
    {"markdown", "FILE", "writes what is printed"},
    {"plots", "FOLDER", "writes SVG images"},
    {"threshold", "PERCENT", "--vs and compare: smaller changes do not count (default 5)"},
};

constexpr OptionSpec kQuantizeOptions[] = {
    {"to", "FORMAT", "fp8, fp8-block, w4a16, w4a16-asym or w8a16"},
    {"output", "DIR", "folder to write; it must not exist, or be empty"},
    {"group-size", "N", "columns that share a scale (default 128, or the next that fits)"},
    {"ignore", "NAME", "a module that keeps its weights: a name or re:EXPRESSION; repeatable"},
};

constexpr std::string_view kServeDetails =
    "MODEL is a GGUF file, a folder with config.json and safetensors, or a name of Hugging Face\n"
    "(org/name), which the command `hf` downloads. One worker starts for each GPU, or one on the\n"
    "CPU, and one router, which serves gRPC and OpenAI's API on one port. A program that ends is\n"
    "started again. Ctrl-C lets running requests finish; a second Ctrl-C ends everything at once.\n"
    "Flags after -- go to the router: docs/configuration.md.";
constexpr std::string_view kUpgradeDetails =
    "Install the new version first. Then each worker of the running `lockstep serve` is drained,\n"
    "ended, and started again from the program on disk, one after the other. With several workers\n"
    "requests go on, with the same answers. With one they wait for its successor, as long as the\n"
    "router's --no-worker-grace and --failover-wait allow. The router is not replaced. If a new\n"
    "worker does not start, or the router does not use it, the other workers stay as they are, "
    "and\n"
    "the exit code is 1. Ctrl-C ends this command only; the upgrade goes on. docs/operations.md\n"
    "says more.";
constexpr std::string_view kChatDetails =
    "End a line with a backslash to go on in the next one. /help lists the commands of a chat.\n"
    "Ctrl-C ends an answer, Ctrl-D the chat. Without a terminal every line of the input is a\n"
    "message, and only the answers are printed.";
constexpr std::string_view kGenerateDetails =
    "Runs lockstep-generate with the same flags; its router is 127.0.0.1:8000 unless --router "
    "says\n"
    "otherwise. `lockstep generate --help` lists the flags.";
constexpr std::string_view kBenchDetails =
    "Sends requests, and prints what their clients saw: throughput, time to the first token, time\n"
    "per token, goodput. Latencies of an open loop count from when a request was due, however "
    "late\n"
    "it left. `lockstep bench compare BEFORE.json AFTER.json` compares two results, and exits "
    "with\n"
    "1 if a figure became worse. docs/benchmarking.md says what the figures mean.";
constexpr std::string_view kQuantizeDetails =
    "MODEL is a folder with config.json and safetensors. Rounds the matrices of its layers to the\n"
    "nearest code, without calibration, and writes a folder in the published layout:\n"
    "compressed-tensors, or blocks of 128 x 128 as DeepSeek's. Embeddings, norms, biases and the\n"
    "logits' matrix stay as they are. docs/formats.md says more.";
constexpr std::string_view kCompletionDetails =
    "  bash  source <(lockstep completion bash)\n"
    "  zsh   source <(lockstep completion zsh)\n"
    "  fish  lockstep completion fish | source";

constexpr Verb kVerbs[] = {
    {"serve", "MODEL [options] [-- router flags]", "serve a model on this machine", kServeDetails,
     kServeOptions,
     "lockstep serve ~/models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
     "lockstep serve Qwen/Qwen3-0.6B --port 8001\n"
     "lockstep serve MODEL --device cpu -- --max-waiting-requests 64",
     RunServe},
    {"upgrade", "[options]", "replace the workers of a running server by a new version",
     kUpgradeDetails, kUpgradeOptions,
     "pip install --upgrade ./lockstep-0.2.0-py3-none-manylinux_2_36_x86_64.whl\n"
     "lockstep upgrade",
     RunUpgrade},
    {"chat", "[options]", "talk to a server", kChatDetails, kChatOptions,
     "lockstep chat --system \"Answer in one sentence.\" --temperature 0\n"
     "echo \"What is the capital city of Japan?\" | lockstep chat",
     RunChat},
    {"generate",
     "[flags of lockstep-generate]",
     "send one request",
     kGenerateDetails,
     {},
     "lockstep generate --prompt \"Once upon a time\" --max-tokens 50 --json",
     RunGenerate},
    {"top", "[options]", "watch what a server does", "Ctrl-C ends it.", kTopOptions,
     "lockstep top --url 127.0.0.1:8001\nlockstep top --once", RunTop},
    {"bench", "[options] | compare BEFORE.json AFTER.json", "load a server and measure it",
     kBenchDetails, kBenchOptions,
     "lockstep bench --streams 1,8,64 --prompt 512+-50% --output 128+-50% --plots plots\n"
     "lockstep bench --rates 2,4,8 --goodput ttft:200ms,tpot:25ms --duration 60 --warm-up 10\n"
     "lockstep bench --url 127.0.0.1:8000 --vs 127.0.0.1:9000 --repeats 3",
     RunBench},
    {"quantize", "MODEL --to FORMAT --output DIR [options]", "write a model with smaller weights",
     kQuantizeDetails, kQuantizeOptions,
     "lockstep quantize ~/models/Qwen3-0.6B --to fp8 --output ~/models/Qwen3-0.6B-FP8\n"
     "lockstep quantize MODEL --to w4a16 --group-size 32 --output DIR --ignore re:.*down_proj",
     RunQuantize},
    {"completion",
     "bash|zsh|fish",
     "print a script that completes commands",
     kCompletionDetails,
     {},
     "",
     RunCompletion},
    {"version", "", "print version, commit and CUDA's version", "", {}, "", RunVersion},
    {"help", "[VERB]", "print this, or more about a verb", "", {}, "lockstep help serve", RunHelp},
};

}  // namespace

std::span<const Verb> Verbs() { return kVerbs; }

const Verb* FindVerb(std::string_view name) {
  const auto found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                  [&](const Verb& verb) { return verb.name == name; });
  return found == std::end(kVerbs) ? nullptr : &*found;
}

std::vector<std::string_view> VerbNames() {
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  return names;
}

}  // namespace lockstep::cli
