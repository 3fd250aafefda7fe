#include "router/http/messages/http_head.h"

#include <fmt/format.h>

namespace lockstep::router {

HeaderList FieldsOf(const HttpHead& head) {
  HeaderList fields = {{":status", fmt::format_int(head.status).str()},
                       {"server", "lockstep"},
                       {"content-type", head.content_type}};
  AddFields(head.headers, fields);
  return fields;
}

void AddFields(const HttpHeaders& headers, HeaderList& fields) {
  for (const auto& [name, value] : headers) fields.AddLowered(name, value);
}

}  // namespace lockstep::router
