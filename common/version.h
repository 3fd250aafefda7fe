#pragma once

#include <string>
#include <string_view>

namespace lockstep {

std::string_view Version();      // "0.1.0", the project's version
std::string_view GitCommit();    // short hash at configure time, "unknown" outside a git checkout
std::string_view CudaVersion();  // "12.4.131", of the toolkit; empty: built without CUDA

// "lockstep-router 0.1.0 (commit 1a2b3c4, CUDA 12.4.131)", or "without CUDA".
std::string VersionText(std::string_view program);

}  // namespace lockstep
