#include "worker/service/description.h"

namespace lockstep::worker {

v1::DescribeResponse MakeDescription(const ForwardModelInfo& info, const StepBounds& bounds,
                                     uint32_t max_steps_in_flight, uint64_t incarnation) {
  v1::DescribeResponse description;
  description.set_protocol_version(kProtocolVersion);
  description.set_incarnation(incarnation);
  description.set_model_id(info.model_id);
  description.set_model_fingerprint(info.model_fingerprint);
  description.set_tokenizer_fingerprint(info.tokenizer_fingerprint);
  description.set_weights_fingerprint(info.weights_fingerprint);
  description.set_numerics_id(info.numerics_id);
  description.set_weights_dtype(info.weights_dtype);
  description.set_weights_bytes(info.memory.weights_bytes);
  description.set_device(info.device);
  for (const KvGroupInfo& from : info.kv_groups) {
    v1::KvGroup* const group = description.add_kv_groups();
    group->set_block_size_tokens(info.block_size_tokens);
    group->set_num_blocks(from.num_blocks);
    group->set_dtype(from.dtype);
    group->set_window_tokens(from.window_tokens);
  }
  description.set_max_slots(bounds.max_slots);
  description.set_max_step_tokens(bounds.max_step_tokens);
  description.set_max_context_tokens(bounds.max_context_tokens);
  description.set_vocab_size(bounds.vocab_size);
  description.set_max_logprobs(bounds.max_logprobs);
  description.set_max_steps_in_flight(max_steps_in_flight);
  description.set_tensor_parallel(info.tensor_parallel);
  description.set_max_decode_iterations(bounds.max_decode_iterations);
  description.set_max_draft_tokens(bounds.max_draft_tokens);
  for (const std::string& source : bounds.draft_sources) description.add_draft_sources(source);
  description.set_constraint_engine(bounds.constraint_engine);
  return description;
}

}  // namespace lockstep::worker
