#pragma once

#include <span>
#include <string>

namespace lockstep::cli {

// Becomes lockstep-generate, which is installed beside this program; returns only if that fails.
int RunGenerate(std::span<const std::string> words);

}  // namespace lockstep::cli
