#include "common/json/json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/json/json_scanner.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Approximate memory of a value, with the allocator's overhead: in an array that has just grown, or
// in the tree of an object.
constexpr size_t kBytesPerValue = 32;
constexpr size_t kBytesPerContainer = 64;
constexpr size_t kBytesPerMember = 96;
// A string counts twice, because callers copy it out of the result.
constexpr size_t kCopiesOfString = 2;
constexpr size_t kBytesBetweenMeterings = 64 << 10;

// At most `max_bytes` of `text`: its end if `end` is true, otherwise its beginning. Printable ASCII
// stays, everything else becomes \xNN.
std::string Shown(std::string_view text, size_t max_bytes, bool end) {
  constexpr size_t kMaxBytesPerByte = 4;
  // More than that is never shown.
  if (text.size() > max_bytes) text = text.substr(end ? text.size() - max_bytes : 0, max_bytes);
  const auto shown = [](char c) {
    return c >= 0x20 && c < 0x7f ? std::string(1, c)
                                 : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  };
  std::string out;
  out.reserve(max_bytes + kMaxBytesPerByte);
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string next = shown(text[end ? text.size() - 1 - i : i]);
    if (out.size() + next.size() > max_bytes) break;
    out.insert(end ? 0 : out.size(), next);
  }
  return out;
}

// Builds the value from the scanner's events. The scanner keeps no stack of calls, so nesting is
// limited by max_depth alone.
class Builder final : public JsonEvents {
 public:
  Builder(std::string_view name, JsonLimits limits, const JsonMeter& meter)
      : name_(name), limits_(limits), meter_(meter) {}

  bool OnNull() override { return Add(nullptr); }
  bool OnBool(bool value) override { return Add(value); }
  bool OnInteger(int64_t value) override { return Add(value); }
  bool OnUnsigned(uint64_t value) override { return Add(value); }
  bool OnFloat(double value) override { return Add(value); }
  bool OnStringBytes(size_t num_bytes) override { return Measure(kCopiesOfString * num_bytes); }
  bool OnString(std::string value) override { return Add(std::move(value)); }
  bool OnObject() override { return Open(Json::object()); }
  bool OnArray() override { return Open(Json::array()); }
  bool OnEnd() override {
    open_.pop_back();
    return true;
  }
  bool OnKey(std::string key) override {
    Json& object = *open_.back();
    if (object.contains(key)) {
      const std::string which =
          limits_.max_quoted_bytes == 0
              ? "a key"
              : fmt::format("key \"{}\"", Shown(key, limits_.max_quoted_bytes, /*end=*/false));
      return Fail(fmt::format("{} is present twice in one object", which));
    }
    if (!Measure(kBytesPerMember)) return false;
    slot_ = &object[std::move(key)];
    return true;
  }

  absl::StatusOr<Json> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

 private:
  bool Fail(std::string_view what) {
    status_ = InvalidArgument("{}: {}", name_, what);
    return false;
  }

  bool Measure(size_t num_bytes) {
    num_result_bytes_ += num_bytes;
    if (meter_ == nullptr || num_result_bytes_ < num_metered_bytes_ + kBytesBetweenMeterings) {
      return true;
    }
    num_metered_bytes_ = num_result_bytes_;
    if (meter_(num_result_bytes_)) return true;
    status_ = ResourceExhausted("{}: takes too much memory beside others", name_);
    return false;
  }

  // Where the next value goes.
  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Count() {
    if (++num_values_ <= limits_.max_values) return Measure(kBytesPerValue);
    return Fail(fmt::format("more than {} values", limits_.max_values));
  }

  template <typename T>
  bool Add(T value) {
    if (!Count()) return false;
    Place(Json(std::move(value)));
    return true;
  }

  bool Open(Json container) {
    if (!Count()) return false;
    if (open_.size() >= limits_.max_depth) {
      return Fail(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    if (!Measure(kBytesPerContainer)) return false;
    open_.push_back(Place(std::move(container)));
    return true;
  }

  const std::string_view name_;
  const JsonLimits limits_;
  const JsonMeter& meter_;
  Json root_;
  // The address of an open container stays valid, because only the innermost one grows.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // place of the last key's value
  size_t num_values_ = 0;
  size_t num_result_bytes_ = 0;
  size_t num_metered_bytes_ = 0;
  absl::Status status_;
};

// Writes the scanner's events.
class Rewriter final : public JsonEvents {
 public:
  explicit Rewriter(const std::function<std::string(std::string)>& change) : change_(change) {}

  bool OnNull() override { return Add(nullptr); }
  bool OnBool(bool value) override { return Add(value); }
  bool OnInteger(int64_t value) override { return Add(value); }
  bool OnUnsigned(uint64_t value) override { return Add(value); }
  bool OnFloat(double value) override { return Add(value); }
  bool OnStringBytes(size_t) override { return true; }
  bool OnString(std::string value) override { return AddString(change_(std::move(value))); }
  bool OnKey(std::string key) override {
    AddString(change_(std::move(key)));
    out_ += ':';
    needs_comma_ = false;
    return true;
  }
  bool OnObject() override { return Open('{', '}'); }
  bool OnArray() override { return Open('[', ']'); }
  bool OnEnd() override {
    out_ += ends_.back();
    ends_.pop_back();
    needs_comma_ = true;
    return true;
  }

  std::string Take() { return std::move(out_); }

 private:
  void Separate() {
    if (needs_comma_) out_ += ',';
    needs_comma_ = true;
  }
  template <typename T>
  bool Add(T value) {
    Separate();
    out_ += Json(std::move(value)).dump();
    return true;
  }
  // Bytes above ASCII are written unchanged, also if `change` returned invalid UTF-8.
  bool AddString(std::string_view text) {
    Separate();
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    out_ += '"';
    for (const char c : text) {
      if (const size_t place = kEscaped.find(c); place != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[place];
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
    return true;
  }
  bool Open(char begin, char end) {
    Separate();
    out_ += begin;
    ends_ += end;
    needs_comma_ = false;
    return true;
  }

  const std::function<std::string(std::string)>& change_;
  std::string out_;
  std::string ends_;  // of the open containers
  bool needs_comma_ = false;
};

// True if the text of `value` has at most about `room` bytes. Subtracts its size from `room`. Stops
// as soon as the text is too long.
bool FitsInto(const Json& value, size_t& room) {
  const size_t num_bytes =
      1 + (value.is_string() ? value.get_ref<const std::string&>().size() : size_t{0});
  if (num_bytes > room) return false;
  room -= num_bytes;
  if (!value.is_structured()) return true;
  if (value.size() > room) return false;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object() && key.size() > room) return false;
    if (value.is_object()) room -= key.size();
    if (!FitsInto(member, room)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name,
                                         JsonLimits limits, const JsonMeter& meter,
                                         JsonMemberText* member) {
  Builder builder(name, limits, meter);
  JsonScanner scanner(text, builder);
  if (member != nullptr) scanner.FindMember(member->key);
  scanner.Scan();
  if (member != nullptr) member->text = scanner.member();
  if (!scanner.error().has_value()) return builder.Take();
  const JsonScanner::Error& error = *scanner.error();
  const size_t num_read = std::min(error.position + 1, text.size());
  // The end of what was read is where the error is.
  const std::string_view token =
      text.substr(error.token_begin, num_read - std::min(num_read, error.token_begin));
  const std::string quoted =
      token.empty() || limits.max_quoted_bytes == 0
          ? ""
          : fmt::format(" at \"{}\"", Shown(token, limits.max_quoted_bytes, /*end=*/true));
  return InvalidArgument("{}: byte {}: {}{}", name, num_read, error.what, quoted);
}

std::string RewriteJson(std::string_view text,
                        const std::function<std::string(std::string)>& change) {
  Rewriter rewriter(change);
  JsonScanner(text, rewriter).Scan();
  return rewriter.Take();
}

std::string DescribeJson(const nlohmann::json& value) {
  constexpr size_t kMaxLength = 60;
  size_t room = kMaxLength;
  const bool small = FitsInto(value, room);
  if (!small && value.is_object()) return fmt::format("an object of {} members", value.size());
  if (!small && value.is_array()) return fmt::format("an array of {} elements", value.size());
  std::string text;
  if (small) {
    text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  } else {
    const auto& whole = value.get_ref<const std::string&>();
    text = Json(whole.substr(0, kMaxLength)).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  if (!small || text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  return text;
}

JsonObjectReader::JsonObjectReader(const nlohmann::json& object, std::string name, std::string path,
                                   bool quotes_values)
    : object_(object),
      name_(std::move(name)),
      path_(std::move(path)),
      quotes_values_(quotes_values) {}

const nlohmann::json* JsonObjectReader::Find(std::string_view key) {
  read_.emplace_back(key);
  const auto it = object_.find(read_.back());
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonObjectReader::IsNull(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it != object_.end() && it->is_null();
}

absl::StatusOr<std::optional<uint64_t>> JsonObjectReader::Uint(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  if (!value->is_number_unsigned()) return WrongKind(key, *value, "an integer >= 0");
  return std::optional(value->get<uint64_t>());
}

absl::StatusOr<std::optional<double>> JsonObjectReader::Number(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return WrongKind(key, *value, "a number");
  }
  return std::optional(value->get<double>());
}

absl::StatusOr<std::optional<bool>> JsonObjectReader::Bool(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongKind(key, *value, "true or false");
  return std::optional(value->get<bool>());
}

absl::StatusOr<std::optional<std::string>> JsonObjectReader::String(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongKind(key, *value, "a string");
  return std::optional(value->get<std::string>());
}

std::vector<std::string> JsonObjectReader::UnreadKeys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(read_.begin(), read_.end(), key) == read_.end()) unread.push_back(key);
  }
  return unread;
}

std::string JsonObjectReader::Where(std::string_view key) const {
  return fmt::format("{}: {}{}{}", name_, path_, path_.empty() ? "" : ".", ShownName(key));
}

absl::Status JsonObjectReader::WrongKind(std::string_view key, const nlohmann::json& value,
                                         std::string_view expected) const {
  return InvalidArgument("{} is {}, expected {}", Where(key),
                         quotes_values_ ? DescribeJson(value) : value.type_name(), expected);
}

}  // namespace lockstep
