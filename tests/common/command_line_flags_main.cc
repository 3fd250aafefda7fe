// Flags as a program has them. The name of this file ends as those of programs do, which is how
// CommandLine tells their flags from those of libraries.
#include <absl/flags/flag.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

ABSL_FLAG(std::string, test_name, "nobody", "a text");
ABSL_FLAG(uint32_t, test_count, 7, "a number");
ABSL_FLAG(bool, test_loud, true, "a switch");
ABSL_FLAG(absl::Duration, test_wait, absl::Seconds(1), "a time");
ABSL_FLAG(std::vector<std::string>, test_list, {}, "texts, separated by commas");
