#include "common/json/json_number.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/json/json_scanner.h"

namespace lockstep {
namespace {

// Tracks the path of the current value.
class NumberFinder final : public JsonEvents {
 public:
  explicit NumberFinder(std::string_view path) : wanted_(path) {}

  std::string_view Find(std::string_view text) {
    JsonScanner scanner(text, *this);
    scanner_ = &scanner;
    scanner.Scan();
    return found_;
  }

  bool OnNull() override { return Skip(); }
  bool OnBool(bool) override { return Skip(); }
  bool OnInteger(int64_t) override { return OnNumber(); }
  bool OnUnsigned(uint64_t) override { return OnNumber(); }
  bool OnFloat(double) override { return OnNumber(); }
  bool OnStringBytes(size_t) override { return true; }
  bool OnString(std::string) override { return Skip(); }
  bool OnKey(std::string key) override {
    open_.back().key = std::move(key);
    return true;
  }
  bool OnObject() override { return Open(/*is_array=*/false); }
  bool OnArray() override { return Open(/*is_array=*/true); }
  bool OnEnd() override {
    path_.resize(open_.back().path_bytes);
    open_.pop_back();
    return Skip();
  }

 private:
  struct Container {
    bool is_array;
    size_t path_bytes;  // of its own path
    size_t index = 0;
    std::string key = {};
  };

  // Adds the name of the next value.
  void Enter() {
    if (open_.empty()) return;
    const Container& parent = open_.back();
    if (parent.is_array) {
      path_ += fmt::format("[{}]", parent.index);
    } else {
      path_ += path_.empty() ? parent.key : "." + parent.key;
    }
  }
  // Call after a value.
  bool Skip() {
    if (!open_.empty()) ++open_.back().index;
    return true;
  }
  bool Open(bool is_array) {
    const size_t path_bytes = path_.size();
    Enter();
    open_.push_back({.is_array = is_array, .path_bytes = path_bytes});
    return true;
  }
  bool OnNumber() {
    const size_t path_bytes = path_.size();
    Enter();
    const bool here = path_ == wanted_;
    path_.resize(path_bytes);
    if (here) found_ = scanner_->number();
    return !here && Skip();
  }

  const std::string_view wanted_;
  const JsonScanner* scanner_ = nullptr;
  std::string path_;
  std::vector<Container> open_;
  std::string_view found_;
};

}  // namespace

std::string_view JsonNumberAt(std::string_view text, std::string_view path) {
  return NumberFinder(path).Find(text);
}

}  // namespace lockstep
