#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The contents of a JSON text, in order. A method that returns false ends the scan.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool OnNull() = 0;
  virtual bool OnBool(bool value) = 0;
  virtual bool OnInteger(int64_t value) = 0;  // negative, or -0
  virtual bool OnUnsigned(uint64_t value) = 0;
  virtual bool OnFloat(double value) = 0;  // finite; also integers that fit neither of these
  // Called before a string or a key of this size is built.
  virtual bool OnStringBytes(size_t num_bytes) = 0;
  virtual bool OnString(std::string value) = 0;
  virtual bool OnKey(std::string key) = 0;
  virtual bool OnObject() = 0;
  virtual bool OnArray() = 0;
  virtual bool OnEnd() = 0;  // of the innermost object or array
};

// Scans strict JSON (RFC 8259) from any source. It holds only the current string and one byte for
// each level of nesting, so a text that is broken at its end costs no memory. Skips a byte order
// mark at the beginning. Numbers have at most 1,000 characters.
class JsonScanner {
 public:
  struct Error {
    size_t position = 0;     // of the wrong byte; the text's size: the text ends too early
    size_t token_begin = 0;  // start of the last token
    const char* what = nullptr;
  };

  JsonScanner(std::string_view text, JsonEvents& events) : text_(text), events_(events) {}

  // Also locates the value of this member of the root object.
  void FindMember(std::string_view key) { member_key_ = key; }
  // Call after the scan: the text of that value, "" if there is no such member.
  std::string_view member() const { return member_; }

  // Call while a number event runs: the number's text.
  std::string_view number() const { return text_.substr(token_begin_, at_ - token_begin_); }

  // False: the text is no JSON (error), or the events ended the scan (no error).
  bool Scan();
  const std::optional<Error>& error() const { return error_; }

 private:
  enum class Next : uint8_t { kValue, kKey, kAfterValue, kEnd, kFailed };

  Next ReadValue();
  Next ReadKey();
  Next ReadAfterValue();
  bool ReadString(std::string& out);
  // Reads the string that begins before at_. Returns its decoded size and moves at_ past it.
  bool MeasureString(size_t& num_bytes, bool& has_escapes);
  bool MeasureEscape(size_t& num_bytes);
  bool ReadHex(uint32_t& unit);
  bool ReadNumber();
  bool ReadDigits();
  bool EmitNumber(std::string_view number, bool is_integer);
  bool ReadWord(std::string_view word);

  void SkipSpace();
  bool AtEnd() const { return at_ == text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Fail(const char* what);
  Next Failed(const char* what) {
    Fail(what);
    return Next::kFailed;
  }

  const std::string_view text_;
  JsonEvents& events_;
  size_t at_ = 0;
  size_t token_begin_ = 0;
  std::vector<char> open_;  // '{' or '['
  std::optional<Error> error_;
  std::string_view member_key_;
  size_t member_begin_ = 0;  // not 0: the current value is the member's
  std::string_view member_;
};

}  // namespace lockstep
