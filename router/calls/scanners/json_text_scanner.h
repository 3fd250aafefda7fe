#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

inline constexpr size_t kMaxCallDepth = 64;  // of nested objects and arrays in arguments
inline constexpr size_t kMaxNumberBytes = 1000;

enum class ScanState {
  kMore,         // the byte belongs to the value
  kDone,         // the same, and it ends the value
  kEndedBefore,  // the value ended before this byte (numbers and words)
  kBad,          // the byte cannot follow; the scanner is of no more use
};

// Checks one JSON value (RFC 8259) that comes byte by byte, and gives its text. The text is the
// input, byte for byte, except where the input is no JSON that everybody can read: control
// characters in strings are escaped, and halves of surrogate pairs become \ufffd. The input is
// valid UTF-8.
class JsonTextScanner {
 public:
  // Appends accepted text to `out`. White space before the value is left out. Escapes come whole.
  // If the result is kBad, what was appended has no meaning.
  ScanState Push(char c, std::string& out);
  // Whether the value is whole if the input ends here.
  bool IsWhole() const;

 private:
  enum class At : uint8_t {
    kValue,
    kFirstElement,
    kFirstKey,
    kKey,
    kColon,
    kAfterValue,
    kString,
    kEscape,  // after the backslash
    kHex,     // after \u
    kNumber,
    kWord,
    kEnd,
  };
  // What the number so far is.
  enum class Number : uint8_t { kMinus, kZero, kInteger, kDot, kFraction, kE, kSign, kExponent };

  ScanState PushStructure(char c, std::string& out);
  ScanState BeginValue(char c, std::string& out);
  ScanState PushString(char c, std::string& out);
  ScanState PushEscape(char c, std::string& out);
  ScanState PushHex(char c, std::string& out);
  ScanState PushNumber(char c, std::string& out);
  ScanState PushWord(char c, std::string& out);
  ScanState EndValue();
  void EndHighSurrogate(std::string& out);
  bool NumberIsWhole() const;

  At at_ = At::kValue;
  std::vector<char> open_;  // '{' or '['
  bool string_is_key_ = false;
  std::string escape_;          // the current one
  std::string high_surrogate_;  // an escape that waits for its other half
  Number number_ = Number::kMinus;
  size_t num_number_bytes_ = 0;
  std::string_view word_;  // the rest of true, false or null
};

// Appends text as the inside of a JSON string.
void AppendJsonEscaped(std::string_view text, std::string& out);
// The same with quotes around it.
void AppendJsonQuoted(std::string_view text, std::string& out);
// The text of a JSON string, with its quotes, as JsonTextScanner gives it.
std::string DecodeJsonString(std::string_view json);
// Scans a whole text: white space, one value, white space. False: it is something else.
bool ScanJson(std::string_view text, std::string& out);
// The same for one value without white space around it, which may also be Python's True, False or
// None. False: nothing was appended.
bool AppendScalar(std::string_view word, std::string& out);

}  // namespace lockstep::router
