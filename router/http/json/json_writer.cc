#include "router/http/json/json_writer.h"

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

void AppendEscaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsPlain(text[end])) ++end;
    out.append(text, i, end - i);
    i = end;
    if (i == text.size()) break;
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      AppendEscaped(text[i], out);
      ++i;
      continue;
    }
    const Utf8Unit unit = NextUtf8Unit(text.substr(i));
    if (unit.kind == Utf8Kind::kValid) {
      out.append(text, i, unit.length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    i += unit.length;
  }
  out += '"';
}

}  // namespace lockstep::router
