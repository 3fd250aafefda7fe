// Encode throughput on one core, in bytes of text per second. Run in the source folder.
//   prose    English, nearly every piece a token of its own
//   mixed    the golden corpus: many scripts, emoji, code, white space; pieces that need merging
//   one_run  a single piece of a megabyte
// The *AfterLoad benchmarks encode 64 KiB once with a tokenizer that was just loaded, after its
// memory was pushed out of the CPU's caches.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "router/text/detokenizer.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {
namespace {

constexpr const char* kGolden = "tests/golden/tokenizers/";
constexpr const char* kModel = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr size_t kTextBytes = size_t{4} << 20;
constexpr size_t kColdTextBytes = size_t{64} << 10;
constexpr size_t kEvictBytes = size_t{256} << 20;

std::string ReadFile(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  LOCKSTEP_CHECK(file.ok(), "{}", Message(file.status()));
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

std::unique_ptr<const Tokenizer> LoadTokenizer(const std::string& name) {
  auto tokenizer = name == "smollm2_gguf"
                       ? Tokenizer::Load(kModel)
                       : Tokenizer::FromJson(ReadFile(kGolden + name + ".json"), "", name);
  LOCKSTEP_CHECK(tokenizer.ok(), "{}", Message(tokenizer.status()));
  return *std::move(tokenizer);
}

std::string Repeat(const std::string& unit, size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) text += unit;
  return text;
}

// The strings of the corpus that every vocabulary can spell: without control characters.
std::string MixedUnit() {
  const std::string data = ReadFile(std::string(kGolden) + "strings.bin");
  std::string text;
  for (size_t i = 0; i < data.size();) {
    size_t length = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(data[i++]);
      length |= size_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    bool usable = true;
    for (const char c : data.substr(i, length)) {
      const uint8_t byte = static_cast<uint8_t>(c);
      usable = usable && (byte >= 0x20 || byte == '\n' || byte == '\t') && byte < 0xF1;
    }
    if (usable) text.append(data, i, length).append(" ");
    i += length;
  }
  return text;
}

std::string MakeText(const std::string& kind, size_t num_bytes) {
  if (kind == "prose") return Repeat(ReadFile("LICENSE"), num_bytes);
  if (kind == "mixed") return Repeat(MixedUnit(), num_bytes);
  return std::string(size_t{1} << 20, 'a');
}

void Encode(benchmark::State& state, const std::string& name, const std::string& kind) {
  const auto tokenizer = LoadTokenizer(name);
  const std::string text = MakeText(kind, kTextBytes);
  size_t num_tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer->Encode(text, {});
    LOCKSTEP_CHECK(ids.ok(), "{}", Message(ids.status()));
    num_tokens += ids->size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size() * state.iterations()));
  state.counters["tokens"] =
      benchmark::Counter(static_cast<double>(num_tokens), benchmark::Counter::kIsRate);
}

void EncodeAfterLoad(benchmark::State& state, const std::string& name, const std::string& kind) {
  std::string text = MakeText(kind, kColdTextBytes);
  text.resize(text.rfind(' ', kColdTextBytes));
  std::vector<char> evict(kEvictBytes);
  for (auto _ : state) {
    state.PauseTiming();
    const auto tokenizer = LoadTokenizer(name);
    for (size_t i = 0; i < evict.size(); i += 64) ++evict[i];
    benchmark::ClobberMemory();
    state.ResumeTiming();
    const auto ids = tokenizer->Encode(text, {});
    LOCKSTEP_CHECK(ids.ok(), "{}", Message(ids.status()));
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size() * state.iterations()));
}

// Token by token, as a stream is shown.
void Detokenize(benchmark::State& state, const std::string& name) {
  const auto tokenizer = LoadTokenizer(name);
  const auto ids = tokenizer->Encode(MakeText("mixed", kTextBytes), {});
  LOCKSTEP_CHECK(ids.ok(), "{}", Message(ids.status()));
  for (auto _ : state) {
    IncrementalDetokenizer detokenizer(*tokenizer, /*skip_special_tokens=*/true);
    for (const TokenId id : *ids) benchmark::DoNotOptimize(detokenizer.Push(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(ids->size() * state.iterations()));
}

void RegisterAll() {
  std::vector<std::string> names = {"gpt2", "llama3", "qwen2", "smollm2"};
  if (std::filesystem::exists(kModel)) names.emplace_back("smollm2_gguf");
  for (const std::string& name : names) {
    for (const std::string kind : {"prose", "mixed", "one_run"}) {
      benchmark::RegisterBenchmark(("Encode/" + name + "/" + kind).c_str(), Encode, name, kind);
    }
    for (const std::string kind : {"prose", "mixed"}) {
      benchmark::RegisterBenchmark(("EncodeAfterLoad/" + name + "/" + kind).c_str(),
                                   EncodeAfterLoad, name, kind)
          ->Iterations(5);
    }
    benchmark::RegisterBenchmark(("Detokenize/" + name).c_str(), Detokenize, name);
  }
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lockstep::router::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
