#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/strands/strand.h"
#include "router/limits/byte_budget.h"
#include "router/tracing/trace_context.h"

namespace lockstep::router {

// What an answer may hold until it is sent.
struct AnswerMemory {
  // That all of a server share, and that exchanges may outlive; null: no bound.
  std::shared_ptr<ByteBudget> memory = nullptr;
  size_t max_bytes = SIZE_MAX;  // of one that is not streamed

  // What counts bytes of this tenant's; empty: nobody's.
  ByteBudget::Share ShareOf(std::string_view tenant) const {
    return ByteBudget::Share(memory.get(), memory == nullptr ? nullptr : memory->AccountOf(tenant));
  }
};

struct HttpRequest {
  std::string method;
  std::string path;  // without the query; "*" of OPTIONS: the server as a whole
  std::string body;
  std::string request_id;  // of the header x-request-id; empty: none, or none that may be repeated
  std::string authorization = {};     // the header's value; no answer or log may show it
  std::string host = {};              // the router, as the client calls it; empty: it does not say
  std::string origin = {};            // of the web page that asks; empty: none does
  std::string content_type = {};      // of the body; empty: the client does not say
  std::string content_encoding = {};  // how the body is compressed; empty: it is not
  std::optional<TraceContext> trace = {};   // of the client; none: it has none, or a bad one
  bool loopback_only = false;               // came in where only this machine can connect
  bool body_follows = false;                // there is a body, and none of it was read yet
  uint64_t announced_body_bytes = 0;        // of such a body; UINT64_MAX: nobody knows
  size_t max_body_bytes = SIZE_MAX;         // once it is no longer compressed
  ByteBudget::Share* body_share = nullptr;  // what counts the body that follows, during the call
  AnswerMemory answer = {};
  std::shared_ptr<StrandRunner> home = {};  // runs strands on the connection's thread
};

// For HttpRequest::request_id, from the header x-request-id: at most 256 bytes of IsIdCharacter.
// Empty: it may not be repeated.
std::string_view UsableRequestId(std::string_view header);

using HttpHeaders = std::vector<std::pair<std::string_view, std::string>>;

struct HttpHead {
  int status = 200;
  std::string_view content_type = "application/json";
  HttpHeaders headers = {};
};

// One request and its answer. The connection pulls: it takes what there is whenever nothing is
// being written, so what waits for a slow client is bounded by what its exchange lets wait. Any
// thread.
class Exchange {
 public:
  struct Output {
    std::optional<HttpHead> head;  // in the first output that is not empty
    std::string body;
    bool last = false;

    bool empty() const { return !head.has_value() && body.empty() && !last; }
  };

  virtual ~Exchange() = default;
  virtual Output Take() = 0;
  virtual void OnWritten() = 0;  // what Take returned is on its way
  virtual void Abandon() = 0;    // the client is gone
};

}  // namespace lockstep::router
