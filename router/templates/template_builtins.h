#pragma once

#include <memory>

namespace minja {
class Context;
}

namespace lockstep::router {

// The functions and filters that a template may use: those of the template library, the ones it
// lacks that chat templates use (first, reverse, sort, title, capitalize, replace), trim, tojson
// and string as Python has them, and a range() of bounded length. Nothing here depends on time or
// on earlier renders.
std::shared_ptr<minja::Context> MakeTemplateBuiltins();

}  // namespace lockstep::router
