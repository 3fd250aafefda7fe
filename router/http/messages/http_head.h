#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/front/connection/header_list.h"

namespace lockstep::router {

using HttpHeaders = std::vector<std::pair<std::string_view, std::string>>;

// The head of an answer, as routes and dialects give it.
struct HttpHead {
  int status = 200;
  std::string_view content_type = "application/json";
  HttpHeaders headers = {};
};

// The head as connections send it.
HeaderList FieldsOf(const HttpHead& head);
void AddFields(const HttpHeaders& headers, HeaderList& fields);

}  // namespace lockstep::router
