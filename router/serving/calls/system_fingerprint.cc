#include "router/serving/calls/system_fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hash.h"
#include "common/version.h"
#include "router/engine/engine.h"

namespace lockstep::router {
namespace {

uint64_t TemplateHash(const TemplateSource& source) {
  std::string text = source.special_tokens_json;
  for (const auto& [name, jinja] : source.templates) text += fmt::format("\n{} {}", name, jinja);
  return Hash64(text);
}

}  // namespace

std::string SystemFingerprint(const ApiContext& context) {
  if (context.config.mixed_workers) return {};
  const auto worker = context.engine.largest_worker();
  if (worker->incarnation() == 0) return {};
  const ModelFacts facts = context.Facts();
  std::string facts_text = fmt::format(
      "{} {} weights {:x} numerics {:x} model {:x} tokenizer {:x} template {:x} ends {} context {} "
      "parse_special {} format {} constraints {}",
      Version(), GitCommit(), worker->weights_fingerprint(), worker->numerics_id(),
      worker->model_fingerprint(), context.model.tokenizer_fingerprint,
      TemplateHash(context.model.tokenizer->templates()), fmt::join(facts.eos_token_ids, ","),
      facts.max_context_tokens, context.config.parse_special,
      context.model.output_format == nullptr ? "" : NameOf(*context.model.output_format),
      worker->constraint_engine());
  for (const SamplingNumber& number : kSamplingNumbers) {
    const SamplingNumbers& defaults = facts.defaults;
    facts_text += number.real != nullptr
                      ? fmt::format(" {} {}", number.name, defaults.*number.real)
                      : fmt::format(" {} {}", number.name, defaults.*number.whole);
  }
  return fmt::format("fp_{:016x}", Hash64(facts_text));
}

}  // namespace lockstep::router
