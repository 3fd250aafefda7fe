#include "tests/common/constraints/test_engine.h"

#include <array>
#include <filesystem>
#include <utility>

#include "common/check.h"

namespace lockstep::testing {
namespace {

constexpr char kPackages[] = ".models/llguidance";

// Tests lie in a folder beside that of the programs.
std::string EngineProgram() {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path() / "bin" / "lockstep-constraint-engine";
}

}  // namespace

bool HasLlguidance() { return std::filesystem::exists(std::string(kPackages) + "/llguidance"); }

ConstraintEngineConfig TestEngineConfig() {
  return {.program = EngineProgram(),
          .packages = std::filesystem::absolute(kPackages),
          .job_time = absl::Seconds(10),
          .load_time = absl::Seconds(60)};
}

std::vector<VocabularyToken> TestVocabulary() {
  std::vector<VocabularyToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
  }
  tokens.push_back({.bytes = "<|end|>", .special = true});
  tokens.push_back({.bytes = "<|call|>", .special = true});
  tokens.push_back({});
  tokens.push_back({.bytes = "{\""});
  tokens.push_back({.bytes = "name"});
  return tokens;
}

std::vector<TokenId> TokensOf(std::string_view text) {
  std::vector<TokenId> tokens;
  for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

std::unique_ptr<CagedConstraintEngine> StartTestEngine(const ConstraintEngineConfig& config) {
  absl::StatusOr<std::unique_ptr<CagedConstraintEngine>> engine =
      CagedConstraintEngine::Start(config, TestVocabulary());
  LOCKSTEP_CHECK(engine.ok(), "{}", engine.status().ToString());
  return *std::move(engine);
}

std::string Walk(ConstraintEngine& engine, const Constraint& constraint, std::string_view text) {
  constexpr SlotId kSlot = 1000;
  constexpr std::array<TokenId, 1> kEnds = {kEndToken};
  const absl::Status begun = engine.Begin(kSlot, constraint, kEnds, {});
  if (!begun.ok()) return begun.ToString();
  TokenMask mask;
  std::vector<TokenId> last;
  for (size_t i = 0; i <= text.size(); ++i) {
    const absl::Status status = engine.Mask(kSlot, last, mask);
    if (!status.ok()) return status.ToString();
    const TokenId next = i == text.size() ? kEndToken : static_cast<uint8_t>(text[i]);
    if (!mask.Allows(next)) return i == text.size() ? "end" : std::string(text.substr(0, i));
    last = {next};
  }
  return "ok";
}

}  // namespace lockstep::testing
