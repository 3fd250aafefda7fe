#pragma once

#include <memory>
#include <set>
#include <string>

namespace minja {
class Context;
}

namespace lockstep::router {

// The functions and filters that a template may use: those of the template library, the ones it
// lacks that chat templates use (first, reverse, sort, title, capitalize, replace), and a range()
// of bounded length. Names of `callables` that nothing defines throw, when called, an error that
// names them. Nothing here depends on time or on earlier renders.
std::shared_ptr<minja::Context> MakeTemplateBuiltins(const std::set<std::string>& callables);

}  // namespace lockstep::router
