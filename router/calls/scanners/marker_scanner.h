#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// Finds markers in a text that comes byte by byte. Holds back only bytes that may still become a
// marker. No marker contains another one. Markers are a few dozen bytes, so a byte costs constant
// time.
class MarkerScanner {
 public:
  MarkerScanner() = default;
  explicit MarkerScanner(std::vector<std::string_view> markers);
  // Empty markers are ignored, but keep their index. Bytes that waited for other markers are
  // appended to `released`.
  void SetMarkers(std::vector<std::string_view> markers, std::string& released);
  bool empty() const { return is_empty_; }

  // Appends to `released` the bytes that are part of no marker. Returns the index of a marker that
  // ends here.
  std::optional<size_t> Push(char c, std::string& released);
  // The bytes that wait.
  const std::string& held() const { return held_; }
  std::string TakeHeld();
  // Whether a marker begins with this byte.
  bool MayBegin(char c) const;

 private:
  bool IsPrefix(std::string_view text) const;
  void Release(std::string& released);

  std::vector<std::string_view> markers_;
  bool is_empty_ = true;
  std::string held_;
};

// Reads white space and then one of a few texts, byte by byte.
class TagChoice {
 public:
  enum class State { kMore, kMatched, kMismatch };

  // Empty tags are never matched.
  void Start(std::vector<std::string_view> tags);
  State Push(char c);
  size_t index() const { return index_; }
  // Bytes of the tag so far, without the byte that did not match.
  size_t num_seen() const { return seen_.size(); }

 private:
  std::vector<std::string_view> tags_;
  std::string seen_;
  size_t index_ = 0;
};

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline std::string_view TrimJsonSpaceAtEnd(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}
inline std::string_view TrimJsonSpace(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  return TrimJsonSpaceAtEnd(text);
}

}  // namespace lockstep::router
