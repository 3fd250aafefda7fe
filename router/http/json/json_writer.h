#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <string>
#include <string_view>

namespace lockstep::router {

// Appends `text` as a quoted JSON string. Invalid UTF-8 becomes U+FFFD.
void AppendJsonString(std::string_view text, std::string& out);

// Appends one compact JSON value to a string, in the order of the calls. Sets commas. The caller
// must close objects and arrays, and write keys only in objects. Builds no tree, because it runs
// for every token.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  // Our own keys need no escapes.
  JsonWriter& Key(std::string_view name) {
    Separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    comma_ = false;
    return *this;
  }
  JsonWriter& ForeignKey(std::string_view name) {
    String(name);
    out_ += ':';
    comma_ = false;
    return *this;
  }

  JsonWriter& String(std::string_view text) {
    Separate();
    AppendJsonString(text, out_);
    return *this;
  }
  // `text` is one JSON value, or several members of an object with commas between them.
  JsonWriter& Raw(std::string_view text) { return Literal(text); }
  JsonWriter& Int(std::integral auto value) {
    Separate();
    const fmt::format_int text(value);
    out_.append(text.data(), text.size());
    return *this;
  }
  // JSON has no infinity. OpenAI's API uses this number for minus infinity.
  JsonWriter& Logprob(float value) {
    Separate();
    fmt::format_to(std::back_inserter(out_), "{}", std::isfinite(value) ? value : -9999.0f);
    return *this;
  }
  JsonWriter& Bool(bool value) { return Literal(value ? "true" : "false"); }
  JsonWriter& Null() { return Literal("null"); }

 private:
  JsonWriter& Open(char bracket) {
    Separate();
    out_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonWriter& Close(char bracket) {
    out_ += bracket;
    comma_ = true;
    return *this;
  }
  JsonWriter& Literal(std::string_view text) {
    Separate();
    out_ += text;
    return *this;
  }
  void Separate() {
    if (comma_) out_ += ',';
    comma_ = true;
  }

  std::string& out_;
  bool comma_ = false;  // before the next value
};

}  // namespace lockstep::router
