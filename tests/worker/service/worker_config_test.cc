#include "worker/worker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/common/flag_table_checks.h"
#include "worker/worker_flags.h"

namespace lockstep::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

WorkerConfig Good() {
  WorkerConfig config;
  config.model = "model.gguf";
  return config;
}

TEST(WorkerConfigTest, DefaultsNeedOnlyAModel) {
  EXPECT_TRUE(Good().Validate().ok()) << Good().Validate();
  EXPECT_THAT(std::string(WorkerConfig().Validate().message()), HasSubstr("--model"));
}

TEST(WorkerConfigTest, ReportsEveryViolationAtOnce) {
  WorkerConfig config;
  config.listen = "nowhere";
  config.max_slots = 65537;
  config.drain_grace = -absl::Seconds(1);
  const absl::Status status = config.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--model:"), HasSubstr("\n--listen:"),
                    HasSubstr("\n--max-slots: must be in [0, 65536], got 65537"),
                    HasSubstr("\n--drain-grace:")));
}

TEST(WorkerConfigTest, EveryKnobHasARange) {
  struct Case {
    std::string flag;
    std::function<void(WorkerConfig&)> spoil;
  };
  const std::vector<Case> cases = {
      {"--kv-cache-tokens", [](WorkerConfig& c) { c.kv_cache_tokens = 31; }},
      {"--kv-cache-tokens", [](WorkerConfig& c) { c.kv_cache_tokens = (uint64_t{1} << 26) + 1; }},
      {"--tensor-parallel", [](WorkerConfig& c) { c.tensor_parallel = 0; }},
      {"--tensor-parallel", [](WorkerConfig& c) { c.tensor_parallel = 65; }},
      {"--max-slots", [](WorkerConfig& c) { c.max_slots = 65537; }},
      {"--max-step-tokens", [](WorkerConfig& c) { c.max_step_tokens = (1u << 20) + 1; }},
      {"--max-step-tokens", [](WorkerConfig& c) { c.max_step_tokens = 1; }},
      {"--memory-fraction", [](WorkerConfig& c) { c.memory_fraction = 0; }},
      {"--device", [](WorkerConfig& c) { c.device = "gpu"; }},
      {"--load-format", [](WorkerConfig& c) { c.load_format = "gguf"; }},
      {"--weights", [](WorkerConfig& c) { c.weights = "int8"; }},
      {"--kv-dtype", [](WorkerConfig& c) { c.kv_dtype = "fp8_e5m2"; }},
      {"--activations", [](WorkerConfig& c) { c.activations = "int8"; }},
      {"--activations: fp8 needs a GPU",
       [](WorkerConfig& c) {
         c.activations = "fp8";
         c.device = "cpu";
       }},
      {"--activations: fp8 needs weights in FP8",
       [](WorkerConfig& c) {
         c.activations = "fp8";
         c.weights = "bf16";
       }},
      {"--max-logits-rows", [](WorkerConfig& c) { c.max_logits_rows = 65537; }},
      {"--max-logprobs", [](WorkerConfig& c) { c.max_logprobs = 1025; }},
      {"--max-decode-iterations", [](WorkerConfig& c) { c.max_decode_iterations = 0; }},
      {"--max-steps-in-flight", [](WorkerConfig& c) { c.max_steps_in_flight = 1; }},
      {"--drafter", [](WorkerConfig& c) { c.drafter = "oracle"; }},
      {"--max-draft-tokens", [](WorkerConfig& c) { c.max_draft_tokens = 17; }},
      {"--max-message-mib", [](WorkerConfig& c) { c.max_message_mib = 55; }},
      {"--threads", [](WorkerConfig& c) { c.num_threads = 5000; }},
      {"--poll-window", [](WorkerConfig& c) { c.poll_window = absl::Seconds(2); }},
      {"--drain-grace", [](WorkerConfig& c) { c.drain_grace = absl::InfiniteDuration(); }},
      {"--instruction-set", [](WorkerConfig& c) { c.instruction_set = "sse"; }},
      {"--instruction-set",
       [](WorkerConfig& c) {
         c.instruction_set = "avx2";
         c.device = "cuda";
       }},
      {"--admin-listen", [](WorkerConfig& c) { c.admin_listen = "x:y"; }},
  };
  for (const Case& bad : cases) {
    WorkerConfig config = Good();
    bad.spoil(config);
    EXPECT_THAT(std::string(config.Validate().message()), HasSubstr(bad.flag));
  }
}

TEST(WorkerConfigTest, EachFlagSetsAFieldOfItsOwn) {
  ExpectEachFlagSetsAFieldOfItsOwn(WorkerFlags);
}

TEST(WorkerConfigTest, EveryRankHasAGpuOfItsOwn) {
  const auto devices = [](const std::string& list, uint32_t tensor_parallel) {
    WorkerConfig config = Good();
    config.cuda_device = list;
    config.tensor_parallel = tensor_parallel;
    const auto found = config.CudaDevices();
    EXPECT_EQ(found.ok(), config.Validate().ok());
    return found.ok() ? *found : std::vector<int>();
  };
  EXPECT_THAT(devices("", 1), ElementsAre(0));
  EXPECT_THAT(devices("", 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(devices("3", 1), ElementsAre(3));
  EXPECT_THAT(devices("2,0", 1), ElementsAre(2, 0));
  EXPECT_THAT(devices("2,0", 2), ElementsAre(2, 0));
  struct Case {
    std::string list;
    uint32_t tensor_parallel;
    std::string problem;
  };
  for (const auto& [list, tensor_parallel, problem] : std::vector<Case>{
           {"0,1,0", 1, "--cuda-device: names GPU 0 twice"},
           {"0,1", 4, "--cuda-device: names 2 GPUs, but --tensor-parallel is 4"},
           {"3", 2, "--cuda-device: names 1 GPUs, but --tensor-parallel is 2"},
           {"0,,1", 1, "--cuda-device: expected indices of GPUs such as 0,1,2,3, got \"0,,1\""},
           {"-1", 1, "--cuda-device: expected indices"},
           {"gpu", 1, "--cuda-device: expected indices"}}) {
    WorkerConfig config = Good();
    config.cuda_device = list;
    config.tensor_parallel = tensor_parallel;
    EXPECT_THAT(std::string(config.Validate().message()), HasSubstr(problem));
  }
}

TEST(WorkerConfigTest, AGpuTakesOnlyWhatItsKernelsTake) {
  const auto objections = [](uint32_t max_slots, uint32_t max_logits_rows,
                             uint32_t max_logprobs = 20) {
    WorkerConfig config = Good().For(kGpuDefaults);
    config.max_slots = max_slots;
    config.max_logits_rows = max_logits_rows;
    config.max_logprobs = max_logprobs;
    EXPECT_TRUE(config.Validate().ok()) << config.Validate();
    return std::string(config.ValidateOnCuda().message());
  };
  EXPECT_EQ(objections(512, 512), "");
  EXPECT_EQ(objections(65536, 1024), "");
  EXPECT_EQ(objections(1024, 65535), "");
  EXPECT_EQ(objections(1024, 65536),
            "--max-logits-rows: a GPU worker takes at most 65535, got 65536");
  EXPECT_EQ(objections(2048, 2048, 21),
            "--max-logprobs: a GPU worker reports at most 20, got 21\n"
            "--max-logits-rows: with --max-slots 2048 a GPU worker takes at most 1024, got 2048");
  WorkerConfig small_steps = Good().For(kGpuDefaults);
  small_steps.max_slots = small_steps.max_logits_rows = 2048;
  small_steps.max_step_tokens = 1000;  // no pass has more rows
  EXPECT_TRUE(small_steps.ValidateOnCuda().ok());
}

// A CPU worker computes other bits than the GPU workers beside it.
TEST(WorkerConfigTest, OnlyAMachineWithoutAGpuServesOnTheCpuByItself) {
  const absl::Status none = absl::UnavailableError("this machine has no NVIDIA driver");
  const absl::Status broken = absl::InternalError("system not yet initialized");
  WorkerConfig config = Good();
  for (const char* const index : {"", "0", "1"}) {
    SCOPED_TRACE(index);
    config.cuda_device = index;  // the unit of systemd names one on CPU machines too
    config.device = "auto";
    EXPECT_TRUE(*config.ServesOnCuda(absl::OkStatus()));
    EXPECT_FALSE(*config.ServesOnCuda(none));
    const absl::Status error = config.ServesOnCuda(broken).status();
    EXPECT_EQ(error.code(), broken.code());
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("--device=auto"), HasSubstr("--device=cpu"),
                      HasSubstr("system not yet initialized")));
    config.device = "cuda";
    EXPECT_TRUE(*config.ServesOnCuda(absl::OkStatus()));
    for (const absl::Status& status : {none, broken}) {
      EXPECT_EQ(config.ServesOnCuda(status).status().code(), status.code());
      EXPECT_THAT(std::string(config.ServesOnCuda(status).status().message()),
                  HasSubstr("--device=cuda: " + std::string(status.message())));
    }
    config.device = "cpu";
    for (const absl::Status& status : {absl::OkStatus(), none, broken}) {
      EXPECT_FALSE(*config.ServesOnCuda(status));
    }
  }
}

TEST(WorkerConfigTest, AUnixSocketIsForThisMachineAndTakesNoTls) {
  WorkerConfig config = Good();
  config.listen = "unix:/run/lockstep/worker";
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  config.listen = "unix:";
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("--listen: expected unix:PATH with 1 to 107 bytes of path"));
  config.listen = "unix:worker";
  config.tls = {.cert_path = "cert.pem", .key_path = "key.pem", .client_ca_path = ""};
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("--listen: a unix socket takes no TLS"));
}

TEST(WorkerConfigTest, OtherMachinesOnlyWhenToldSo) {
  for (const char* const local : {"127.0.0.1:1", "localhost:1", "[::1]:1", "127.3.2.1:0"}) {
    WorkerConfig config = Good();
    config.listen = local;
    config.admin_listen = local;
    EXPECT_TRUE(config.Validate().ok()) << local;
  }
  for (const char* const open : {"0.0.0.0:1", "[::]:1", "worker.example:1"}) {
    WorkerConfig config = Good();
    config.listen = open;
    EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("--insecure")) << open;
    config.insecure = true;
    EXPECT_TRUE(config.Validate().ok()) << open;
    config = Good();
    config.admin_listen = open;
    EXPECT_THAT(std::string(config.Validate().message()),
                AllOf(HasSubstr("--admin-listen:"), HasSubstr("--insecure")))
        << open;
    config.insecure = true;
    EXPECT_TRUE(config.Validate().ok()) << open;
  }
}

TEST(WorkerConfigTest, DraftsAsTheFlagsSayOrTheBackendFindsRight) {
  WorkerConfig config = Good();
  EXPECT_TRUE(config.drafts(/*by_default=*/true));
  EXPECT_FALSE(config.drafts(/*by_default=*/false));
  config.drafter = "ngram";
  EXPECT_TRUE(config.drafts(/*by_default=*/false));
  config.max_draft_tokens = 0;
  EXPECT_FALSE(config.drafts(/*by_default=*/true));
  config.max_draft_tokens = 5;
  config.drafter = "none";
  EXPECT_FALSE(config.drafts(/*by_default=*/true));
}

TEST(WorkerConfigTest, BecomesOptions) {
  WorkerConfig config = Good();
  config.kv_cache_tokens = 1000;
  config.max_slots = 3;
  config.max_message_mib = 60;
  config.max_steps_in_flight = 7;
  EXPECT_EQ(config.model_options().num_kv_blocks, 62u);
  EXPECT_EQ(config.executor_limits().max_slots, 3u);
  EXPECT_EQ(config.executor_limits().max_draft_tokens, 0u);
  config.max_draft_tokens = 5;
  EXPECT_EQ(config.executor_limits_with_drafts().max_draft_tokens, 5u);
  EXPECT_THAT(config.executor_limits_with_drafts().draft_sources, ElementsAre("ngram"));
  EXPECT_THAT(config.executor_limits().draft_sources, ::testing::IsEmpty());
  EXPECT_EQ(config.server_options().service.max_message_bytes, 60 << 20);
  EXPECT_EQ(config.server_options().service.max_steps_in_flight, 7u);
}

TEST(WorkerConfigTest, TheDeviceDecidesWhereNoFlagDoes) {
  WorkerConfig config = Good();
  config.max_slots = 3;
  const WorkerConfig on_gpu = config.For(kGpuDefaults);
  EXPECT_EQ(on_gpu.max_slots, 3u);
  EXPECT_EQ(on_gpu.max_step_tokens, 8192u);
  EXPECT_EQ(on_gpu.max_logits_rows, 512u);
  EXPECT_EQ(on_gpu.model_options().num_kv_blocks, 0u);
  EXPECT_EQ(on_gpu.model, config.model);
  const WorkerConfig on_cpu = Good().For(kCpuDefaults);
  EXPECT_EQ(on_cpu.max_slots, 256u);
  EXPECT_EQ(on_cpu.model_options().max_step_tokens, 2048u);
  EXPECT_EQ(on_cpu.model_options().num_kv_blocks, 2048u);
}

TEST(WorkerConfigTest, APublicAddressNeedsCertificatesOfRouters) {
  WorkerConfig config;
  config.model = "model";
  config.listen = "0.0.0.0:1";
  const auto objections = [&] { return std::string(config.Validate().message()); };
  EXPECT_THAT(objections(), HasSubstr("--tls-client-ca"));
  config.tls = {.cert_path = "none.pem", .key_path = "none.key", .client_ca_path = ""};
  EXPECT_THAT(objections(), HasSubstr("--tls-client-ca"));
  config.tls.client_ca_path = "ca.pem";
  EXPECT_THAT(objections(), AllOf(HasSubstr("--tls-cert: none.pem"), Not(HasSubstr("0.0.0.0"))));
  config.listen = "127.0.0.1:1";
  config.admin_listen = "0.0.0.0:1";
  EXPECT_THAT(objections(),
              AllOf(HasSubstr("--admin-listen: 0.0.0.0:1"), HasSubstr("pass --insecure-admin if")));
  config.insecure_admin = true;
  EXPECT_THAT(objections(), Not(HasSubstr("0.0.0.0:1")));
  config.tls = {};
  config.listen = "0.0.0.0:2";
  EXPECT_THAT(objections(),
              AllOf(HasSubstr("--listen: 0.0.0.0:2"), Not(HasSubstr("--admin-listen"))));
}

}  // namespace
}  // namespace lockstep::worker
