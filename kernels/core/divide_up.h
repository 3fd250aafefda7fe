#pragma once

#include <concepts>
#include <type_traits>

namespace lockstep::kernels {

// The quotient, rounded up. `value` is not negative, `by` is positive.
template <std::integral Value, std::integral By>
constexpr std::common_type_t<Value, By> DivideUp(Value value, By by) {
  return (value + by - 1) / by;
}

}  // namespace lockstep::kernels
