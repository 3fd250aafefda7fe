#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "router/limits/byte_budget.h"
#include "router/strands/strand.h"
#include "router/tracing/trace_context.h"

namespace lockstep::router {

// The memory that an answer may hold until it is sent.
struct AnswerMemory {
  // Shared by the whole server; exchanges may outlive the server. Null: no limit.
  std::shared_ptr<ByteBudget> memory = nullptr;
  size_t max_bytes = SIZE_MAX;  // of one answer that is not streamed

  // A share that counts bytes against `tenant`; empty: against no tenant.
  ByteBudget::Share ShareOf(std::string_view tenant) const {
    return ByteBudget::Share(memory.get(), memory == nullptr ? nullptr : memory->AccountOf(tenant));
  }
};

// A request of the HTTP API, as the gateway, the routes and the exchanges see it.
struct HttpRequest {
  std::string method;
  std::string path;  // without the query; "*" for OPTIONS of the whole server
  std::string body;
  std::string request_id;          // from x-request-id; empty if there is none, or an unusable one
  std::string authorization = {};  // the header's value; never shown in answers or logs
  std::string api_key = {};        // the same of x-api-key, which clients of Anthropic's API send
  std::string session_id = {};     // from x-claude-code-session-id; empty: none, or an unusable one
  std::string host = {};           // the router's name in the request; empty: not given
  std::string origin = {};         // the web page that sent the request; empty: none
  std::string content_type = {};   // of the body; empty: not given
  std::string content_encoding = {};        // compression of the body; empty: none
  std::optional<TraceContext> trace = {};   // from the client; none if absent or malformed
  bool loopback_only = false;               // came through a listener for this machine only
  bool body_follows = false;                // there is a body, still unread
  uint64_t announced_body_bytes = 0;        // size of that body; UINT64_MAX: unknown
  size_t max_body_bytes = SIZE_MAX;         // limit after decompression
  ByteBudget::Share* body_share = nullptr;  // counts that body; valid during the call
  AnswerMemory answer = {};
  std::shared_ptr<StrandRunner> connection_runner = {};  // runs strands on the connection's thread
};

}  // namespace lockstep::router
