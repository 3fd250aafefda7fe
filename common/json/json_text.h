#pragma once

#include <string>
#include <string_view>
#include <vector>

// Parts of a JSON text as they are written. For readers that need the order of keys and the digits
// of numbers, which ParseJson does not keep. Pure, and linear in the text. Every text must be valid
// JSON without keys that appear twice.
namespace lockstep {

// The text of a member's value. Empty if `object` is no object, or has no such member.
std::string_view JsonTextOfMember(std::string_view object, std::string_view key);

// The texts of the elements. Empty if `array` is no array.
std::vector<std::string_view> JsonTextsOfElements(std::string_view array);

// The same JSON without white space between its tokens.
std::string CompactJson(std::string_view text);

}  // namespace lockstep
