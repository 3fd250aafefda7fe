#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Text of clients, servers, models and files, as people may see it. Pure.
namespace lockstep {

// `text` with control characters as \n, \t, \r or \xNN, also U+0080 to U+009F. For everything else
// that prints foreign text.
std::string EscapeControlCharacters(std::string_view text);

// Quotes foreign text in a message: its beginning, escaped to one line of valid UTF-8, with at most
// so many bytes between the quotes. Says how long the text is if it is cut.
inline constexpr size_t kMaxQuotedBytes = 100;
std::string Quote(std::string_view text);

// A name from a file in a message, without quotes: as it is if it is short and plain, otherwise
// escaped and cut as by Quote. Every message about a model's files shows names like this.
std::string ShownName(std::string_view name);

// "2, 3, 4", or the first few numbers and how many there are.
std::string ShownNumbers(std::span<const uint64_t> numbers);

// `text` (UTF-8) without what would steer a terminal: control characters other than line breaks and
// tabs. A model may say anything.
std::string WithoutControls(std::string_view text);

// The beginning of `text`, at most `max_bytes`, on one line and without control characters.
std::string OneLine(std::string_view text, size_t max_bytes);

}  // namespace lockstep
