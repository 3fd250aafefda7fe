#include "common/net/http_date.h"

#include <absl/time/civil_time.h>
#include <absl/time/clock.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {
namespace {

// In the order of absl::Weekday, and of the calendar.
constexpr std::array<std::string_view, 7> kWeekdays = {"Mon", "Tue", "Wed", "Thu",
                                                       "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

}  // namespace

std::string FormatHttpDate(absl::Time time) {
  const absl::CivilSecond civil = absl::ToCivilSecond(time, absl::UTCTimeZone());
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     kWeekdays[static_cast<size_t>(absl::GetWeekday(civil))], civil.day(),
                     kMonths[static_cast<size_t>(civil.month()) - 1], civil.year(), civil.hour(),
                     civil.minute(), civil.second());
}

std::string_view HttpDate() {
  thread_local int64_t formatted_second = INT64_MIN;
  thread_local std::string text;
  const absl::Time now = absl::Now();
  const int64_t second = absl::ToUnixSeconds(now);
  if (second != formatted_second) {
    text = FormatHttpDate(now);
    formatted_second = second;
  }
  return text;
}

}  // namespace lockstep
