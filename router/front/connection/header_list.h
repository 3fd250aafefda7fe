#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::router {

// Header fields in order, in one string. Names are lower case, as in HTTP/2.
class HeaderList {
 public:
  using Field = std::pair<std::string_view, std::string_view>;  // name and value

  HeaderList() = default;
  HeaderList(std::initializer_list<Field> fields) {
    for (const auto& [name, value] : fields) Add(name, value);
  }

  void Add(std::string_view name, std::string_view value) {
    entries_.push_back({.offset = static_cast<uint32_t>(text_.size()),
                        .name_bytes = static_cast<uint32_t>(name.size()),
                        .value_bytes = static_cast<uint32_t>(value.size())});
    text_ += name;
    text_ += value;
  }
  // For a name in any case.
  void AddLowered(std::string_view name, std::string_view value) {
    Add(name, value);
    const auto begin = text_.begin() + entries_.back().offset;
    std::transform(begin, begin + static_cast<ptrdiff_t>(name.size()), begin, [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }

  size_t size() const { return entries_.size(); }
  // The views are valid until the next Add.
  Field operator[](size_t index) const {
    const Entry& entry = entries_[index];
    const std::string_view text = text_;
    return {text.substr(entry.offset, entry.name_bytes),
            text.substr(entry.offset + entry.name_bytes, entry.value_bytes)};
  }
  // The value of the first field with this name; empty if there is none.
  std::string_view Find(std::string_view name) const {
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].first == name) return (*this)[i].second;
    }
    return {};
  }
  // The value if exactly one field has this name. Empty if there are several, because it is unclear
  // which one counts.
  std::string_view FindOnly(std::string_view name) const {
    std::string_view found;
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].first != name) continue;
      found = (*this)[i].second;
      ++count;
    }
    return count == 1 ? found : std::string_view();
  }
  // All values, joined by commas, for a field that is a list.
  std::string FindAll(std::string_view name) const {
    std::string all;
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].first != name) continue;
      if (!all.empty()) all += ',';
      all += (*this)[i].second;
    }
    return all;
  }

 private:
  struct Entry {
    uint32_t offset;
    uint32_t name_bytes;
    uint32_t value_bytes;
  };
  std::string text_;
  std::vector<Entry> entries_;
};

// The status of an answer, from ":status"; 0: there is none.
inline int StatusOf(const HeaderList& head) {
  const std::string_view text = head.Find(":status");
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

}  // namespace lockstep::router
