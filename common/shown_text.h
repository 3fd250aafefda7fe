#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Makes text of clients, servers, models and files safe to show. Pure.
namespace lockstep {

// Replaces control characters by \n, \t, \r or \xNN, also U+0080 to U+009F. Use it for any foreign
// text that the functions below do not cover.
std::string EscapeControlCharacters(std::string_view text);

// Quotes foreign text in a message: its beginning, escaped to one line of valid UTF-8, with at most
// kMaxQuotedBytes between the quotes. If the text is cut, its length follows.
inline constexpr size_t kMaxQuotedBytes = 100;
std::string Quote(std::string_view text);

// A name from a file for a message, without quotes: unchanged if it is short and plain, otherwise
// escaped and cut as in Quote. Every message about a model's files shows names like this.
std::string ShownName(std::string_view name);

// "2, 3, 4", or the first few numbers and the count.
std::string ShownNumbers(std::span<const uint64_t> numbers);

// `text` (UTF-8) without control characters other than line breaks and tabs. A model's output could
// otherwise control a terminal.
std::string WithoutControls(std::string_view text);

// The beginning of `text`, at most `max_bytes`, on one line and without control characters.
std::string OneLine(std::string_view text, size_t max_bytes);

}  // namespace lockstep
