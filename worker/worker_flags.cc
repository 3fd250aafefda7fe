#include "worker/worker_flags.h"

#include "common/step_message.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {
namespace {

FlagGroup ModelFlags(WorkerConfig& config) {
  return {
      "Model",
      {
          {"model", &config.model, "GGUF file, or folder with config.json and safetensors"},
          {"load-format", &config.load_format,
           "auto: the model's files; random: config.json alone, with seeded random weights",
           OneOf({"auto", "random"})},
          {"random-seed", &config.random_seed, "seed of random weights"},
          {"weights", &config.weights,
           "how the matrices of quantised files are kept; auto: packed, unless bf16 is faster",
           OneOf({"auto", "packed", "bf16"})},
          {"activations", &config.activations,
           "fp8: products with FP8 weights take FP8 activations, on a GPU; this changes bits",
           OneOf({"bf16", "fp8"})},
          {"constraint-packages", &config.constraint_packages,
           "folder of Python packages with llguidance, which enforces JSON schemas and grammars; "
           "auto: those of a wheel or of the system; off: constraints are refused"},
          {"constraint-python", &config.constraints.python, "Python that runs llguidance"},
      }};
}

FlagGroup DeviceFlags(WorkerConfig& config) {
  return {
      "Device",
      {
          {"device", &config.device, "where the model runs; auto: on CUDA if there is a device",
           OneOf({"auto", "cpu", "cuda"})},
          {"cuda-device", &config.cuda_device,
           "index of the CUDA device, or of several that share the model, as 0,1; empty: the first "
           "ones"},
          {"tensor-parallel", &config.tensor_parallel,
           "ranks that share the model, each with a GPU, or with a part of the CPU's threads",
           FromTo(1, 64)},
          {"instruction-set", &config.instruction_set,
           "kernels of the CPU; auto: the best that this processor has",
           OneOf({"auto", "portable", "avx2", "avx512_bf16"})},
          {"threads", &config.num_threads, "threads of the forward pass; 0: one per core",
           FromTo(0, 4096)},
          {"poll-window", &config.poll_window,
           "how long the step stream is polled while steps are in flight, before its thread sleeps",
           FromTo(0, 1)},
      }};
}

FlagGroup SizeFlags(WorkerConfig& config) {
  // A pool needs two blocks. Routers believe no more than the largest value.
  constexpr double kMinKvTokens = 2 * kernels::kKvBlockTokens;
  return {
      "Sizes",
      {
          {"kv-cache-tokens", &config.kv_cache_tokens,
           "size of the KV cache in tokens; 0: 32768 on the CPU, --memory-fraction on a GPU",
           ZeroOr(kMinKvTokens, 1 << 26)},
          {"kv-dtype", &config.kv_dtype,
           "how the KV cache keeps keys and values; auto: bf16; fp8 and fp8_e4m3: in half the "
           "memory",
           OneOf({"bf16", "fp8", "fp8_e4m3", "auto"})},
          {"memory-fraction", &config.memory_fraction,
           "share of a GPU's memory for the KV cache, of what weights and workspace leave free",
           Above(0, 1)},
          {"max-slots", &config.max_slots,
           "sequences that the worker holds at once; 0: 256 on the CPU, 512 on a GPU",
           FromTo(0, 65536)},
          {"max-step-tokens", &config.max_step_tokens,
           "tokens of one step, over all rows; 0: 2048 on the CPU, 8192 on a GPU",
           ZeroOr(2, 1 << 20)},
          {"max-logits-rows", &config.max_logits_rows,
           "rows of logits in one forward pass; 0: 256 on the CPU, 512 on a GPU", FromTo(0, 65536)},
          {"max-logprobs", &config.max_logprobs, "best tokens reported for a position",
           FromTo(0, 1024)},
          {"max-decode-iterations", &config.max_decode_iterations,
           "decode steps that one message may ask for", FromTo(1, 1024)},
          {"max-steps-in-flight", &config.max_steps_in_flight,
           "steps that a router may send ahead of results", FromTo(2, 64)},
          {"max-message-mib", &config.max_message_mib, "largest message of the step stream, in MiB",
           FromTo(kMaxStepMessageMib, 1024)},
      }};
}

FlagGroup SpeculationFlags(WorkerConfig& config) {
  return {
      "Speculation",
      {
          {"drafter", &config.drafter,
           "what guesses coming tokens; ngram: what followed the same words before; auto: ngram "
           "on the CPU, none on a GPU; guesses change no output",
           OneOf({"auto", "ngram", "none"})},
          {"max-draft-tokens", &config.max_draft_tokens,
           "tokens guessed for a sequence in one step, at most; 0: none", FromTo(0, 16)},
      }};
}

FlagGroup ListenerFlags(WorkerConfig& config) {
  return {"Listeners and security",
          {
              {"listen", &config.listen,
               "host:port or unix:PATH of the step service; port 0 takes a free one"},
              {"admin-listen", &config.admin_listen, "host:port of /metrics, /healthz and /livez"},
              {"tls-cert", &config.tls.cert_path,
               "PEM certificate of the step service; empty: plaintext"},
              {"tls-key", &config.tls.key_path, "PEM key of --tls-cert"},
              {"tls-client-ca", &config.tls.client_ca_path,
               "PEM certificates of the authorities of routers, which then need a certificate"},
              {"insecure", &config.insecure,
               "allow addresses that other machines can reach, without certificates"},
              {"insecure-admin", &config.insecure_admin,
               "allow an address that other machines can reach for --admin-listen only"},
              {"drain-grace", &config.drain_grace, "time that SIGTERM leaves running sequences",
               FromTo(0, 3600)},
              {"check-config", &config.check_only, "check the flags and exit"},
          }};
}

}  // namespace

FlagTable WorkerFlags(WorkerConfig& config) {
  return {ModelFlags(config), DeviceFlags(config), SizeFlags(config), SpeculationFlags(config),
          ListenerFlags(config)};
}

}  // namespace lockstep::worker
