#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {

// Begins and ends strings of Gemma.
inline constexpr std::string_view kGemmaDelimiter = "<|\"|>";

// Reads one value of another syntax than JSON, byte by byte, and writes it as JSON.
//   kPython: a list of keyword arguments "(a=1, b='x')", which becomes an object. Values are
//     Python's literals: strings, numbers, True, False, None, lists, tuples, dictionaries. The
//     words of JSON are accepted too.
//   kGemma: an object "{a:1,b:<|"|>x<|"|>}". Keys may be bare. Bare values that are no JSON are
//     strings.
// The input is valid UTF-8.
class LiteralScanner {
 public:
  enum class Dialect : uint8_t { kPython, kGemma };
  explicit LiteralScanner(Dialect dialect) : dialect_(dialect) {}

  // Never kEndedBefore. If the result is kBad, what was appended has no meaning.
  ScanState Push(char c, std::string& out);

 private:
  enum class At : uint8_t {
    kStart,
    kFirstKey,  // or the end of the object
    kKey,       // or the end, behind a comma
    kBareKey,
    kBehindKey,
    kFirstElement,  // or the end of the list
    kElement,       // or the end, behind a comma
    kValue,
    kBare,
    kBehindValue,
    kString,
    kEscape,
    kCode,       // \x41, \u0041, \U00000041, \101
    kDelimiter,  // in the delimiter that begins a string
    kEnd,
  };

  bool Open(char c, std::string& out);
  ScanState Close(std::string& out);
  void WriteComma(std::string& out);
  ScanState PushStructure(char c, std::string& out);
  ScanState BeginKey(char c, std::string& out);
  ScanState BeginValue(char c, std::string& out);
  bool BeginString(char c, bool is_key, std::string& out);
  ScanState PushBareKey(char c, std::string& out);
  ScanState PushBare(char c, std::string& out);
  ScanState PushDelimiter(char c, std::string& out);
  ScanState PushString(char c, std::string& out);
  ScanState EndString(std::string& out);
  ScanState PushEscape(char c, std::string& out);
  ScanState PushCode(char c, std::string& out);
  void EndCode(std::string& out);
  void AppendCharacter(uint32_t code_point, std::string& out);
  bool IsObject() const { return open_.back() == '{' || is_keywords(); }
  bool is_keywords() const { return open_.size() == 1 && dialect_ == Dialect::kPython; }

  Dialect dialect_;
  At at_ = At::kStart;
  std::vector<char> open_;  // '{', '[' or '('
  std::vector<std::string> keywords_;
  std::string bare_;
  bool needs_comma_ = false;  // before the current item
  bool string_is_key_ = false;
  char quote_ = 0;
  MarkerScanner delimiter_ = MarkerScanner({kGemmaDelimiter});
  TagChoice delimiter_begin_;
  std::string code_;            // the digits so far
  size_t num_code_digits_ = 0;  // 2, 4, 8; 3: octal
  uint32_t high_surrogate_ = 0;
};

}  // namespace lockstep::router
