#pragma once

#include <array>
#include <cstddef>

namespace lockstep::worker {

// One T for each value of an enumeration that ends with kCount.
template <typename Enum, typename T>
class EnumArray {
 public:
  static constexpr size_t kSize = static_cast<size_t>(Enum::kCount);

  constexpr T& operator[](Enum value) { return values_[static_cast<size_t>(value)]; }
  constexpr const T& operator[](Enum value) const { return values_[static_cast<size_t>(value)]; }

 private:
  std::array<T, kSize> values_ = {};
};

// All values of such an enumeration, in order: for (const Enum value : EnumValues<Enum>()) ...
template <typename Enum>
constexpr auto EnumValues() {
  std::array<Enum, static_cast<size_t>(Enum::kCount)> values = {};
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Enum>(i);
  return values;
}

}  // namespace lockstep::worker
