#include "cli/serve/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kUnfit = absl::StatusCode::kFailedPrecondition;

const Gpu kHopper = {"NVIDIA H200", "9.0", "GPU-aa"};
const Gpu kOther = {"NVIDIA H200", "9.0", "GPU-bb"};
const Gpu kAmpere = {"NVIDIA A100-SXM4-80GB", "8.0", "GPU-cc"};

TEST(DevicesTest, ReadsTheListOfNvidiaSmi) {
  EXPECT_THAT(ParseGpus("NVIDIA H200, 9.0, GPU-aa\nNVIDIA A100-SXM4-80GB, 8.0, GPU-cc\n"),
              ElementsAre(kHopper, kAmpere));
  EXPECT_THAT(ParseGpus("NVIDIA H200\n"), ElementsAre(Gpu{"NVIDIA H200", "", ""}));
  EXPECT_THAT(ParseGpus("\n"), IsEmpty());
}

TEST(DevicesTest, HidesWhatCudaHides) {
  const std::vector<Gpu> all = {kHopper, kOther, kAmpere};
  EXPECT_EQ(VisibleGpus(all, std::nullopt), all);
  EXPECT_THAT(VisibleGpus(all, "2,0"), ElementsAre(kAmpere, kHopper));
  EXPECT_THAT(VisibleGpus(all, "GPU-b"), ElementsAre(kOther));
  EXPECT_THAT(VisibleGpus(all, "1,-1,0"), ElementsAre(kOther));
  EXPECT_THAT(VisibleGpus(all, "7"), IsEmpty());
}

TEST(DevicesTest, AWorkerForEachGpuOrOneOnTheCpu) {
  const auto fleet = ChooseDevices("auto", true, {kHopper, kOther});
  ASSERT_THAT(fleet, IsOk());
  EXPECT_TRUE(fleet->cuda);
  EXPECT_EQ(fleet->num_workers, 2u);
  for (const auto& cpu : {ChooseDevices("cpu", true, {kAmpere}), ChooseDevices("auto", true, {})}) {
    ASSERT_THAT(cpu, IsOk());
    EXPECT_FALSE(cpu->cuda);
    EXPECT_EQ(cpu->num_workers, 1u);
    EXPECT_EQ(cpu->note, "");
  }
}

TEST(DevicesTest, RanksOfAWorkerHaveGpusOfTheirOwn) {
  const auto pairs = ChooseDevices("auto", true, std::vector<Gpu>(4, kHopper), 2);
  ASSERT_THAT(pairs, IsOk());
  EXPECT_EQ(pairs->num_workers, 2u);
  EXPECT_EQ(pairs->note, "");
  EXPECT_EQ(DevicesOfWorker(*pairs, 0), "0,1");
  EXPECT_EQ(DevicesOfWorker(*pairs, 1), "2,3");
  const auto uneven = ChooseDevices("cuda", true, std::vector<Gpu>(3, kHopper), 2);
  ASSERT_THAT(uneven, IsOk());
  EXPECT_EQ(uneven->num_workers, 1u);
  EXPECT_EQ(uneven->note, "1 of 3 GPUs stay unused: each worker takes 2");
  EXPECT_THAT(ChooseDevices("auto", true, {kHopper}, 4),
              HasError(kUnfit,
                       "--tensor-parallel: 4 ranks need a GPU each, this machine shows 1; "
                       "--device cpu has ranks"));
  const auto cpu = ChooseDevices("cpu", true, {kHopper}, 4);
  ASSERT_THAT(cpu, IsOk());
  EXPECT_EQ(cpu->num_workers, 1u);
}

TEST(DevicesTest, NamesTheGpuThatCannotBeUsed) {
  EXPECT_THAT(ChooseDevices("auto", true, {kHopper, kAmpere}),
              HasError(kUnfit, AllOf(HasSubstr("GPU 1 is a NVIDIA A100-SXM4-80GB"),
                                     HasSubstr("8.0"), HasSubstr("--device cpu"))));
  EXPECT_THAT(ChooseDevices("cuda", false, {kAmpere}), HasError(kUnfit, HasSubstr("GPU 0")));
}

TEST(DevicesTest, SaysWhatIsMissing) {
  EXPECT_THAT(ChooseDevices("cuda", true, {}), HasError(kUnfit, HasSubstr("no NVIDIA GPU")));
  EXPECT_THAT(ChooseDevices("cuda", false, {kHopper}),
              HasError(kUnfit, HasSubstr("this build has no CUDA")));
  const auto without = ChooseDevices("auto", false, {kHopper});
  ASSERT_THAT(without, IsOk());
  EXPECT_FALSE(without->cuda);
  EXPECT_THAT(without->note, HasSubstr("no CUDA"));
}

}  // namespace
}  // namespace lockstep::cli
