#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_body.h"
#include "router/http/messages/http_head.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// What every API's body becomes. A dialect derives its own type to keep what its writer needs.
struct ApiRequest {
  ApiRequest() = default;
  ApiRequest(const ApiRequest&) = default;
  ApiRequest(ApiRequest&&) = default;
  ApiRequest& operator=(const ApiRequest&) = default;
  ApiRequest& operator=(ApiRequest&&) = default;
  virtual ~ApiRequest() = default;

  // The prompts of a batch are separate requests with the ids "<id>-<index>".
  void SetRequestId(const std::string& id);
  // Approximate memory of all prompts, and of what a dialect keeps beside them.
  virtual size_t NumHeldBytes() const;

  std::vector<lockstep::v1::GenerateRequest> prompts;  // at least one
  std::string request_id;                              // empty: the client gave none
  std::string ignored_fields;                          // UnknownFields::list
  bool stream = false;                                 // the answer is a stream of events
  bool lists_prompts = false;                          // the body has a list of prompts
};

// Turns the messages of a request's prompts into the bytes of one answer. Pure. Used by one thread
// at a time.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Appends the bytes that can be sent now.
  virtual void Add(uint32_t prompt, std::span<const lockstep::v1::GenerateResponse> messages,
                   std::string& out) = 0;
  // Call when every prompt is done.
  virtual void Finish(std::string& out) = 0;
  // A stream failed after its first bytes were sent. Nothing follows.
  virtual void Fail(const absl::Status& status, std::string& out) = 0;
  // Approximate size of what the object keeps for Finish, in bytes of the answer.
  virtual size_t num_held_bytes() const = 0;
};

// What an answer says about its server.
struct AnswerFacts {
  std::string model;
  std::string system_fingerprint = {};  // empty: unknown
  int64_t created_unix_seconds = 0;
  const Tokenizer* tokenizer = nullptr;
};

// What an error says beside its status.
struct ErrorFacts {
  absl::Duration retry_after;        // the default of the hint when to try again
  std::string_view request_id = {};  // of the refused request
};

// An API for text generation over HTTP: how its bodies are read, and how its answers and errors are
// written. Stateless; safe to use from any thread. docs/adding/http-api.md shows how to add one.
class Dialect {
 public:
  virtual ~Dialect() = default;

  // The name of the operation in traces (OpenTelemetry's gen_ai.operation.name) until the body is
  // read.
  virtual std::string_view operation() const = 0;
  // INVALID_ARGUMENT names the field as the body calls it. UNIMPLEMENTED: the field is known, would
  // change the output, and is not served.
  virtual absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(
      std::string_view body, const BodyReading& reading) const = 0;
  // `request` is from this dialect's ReadBody. It and the tokenizer must outlive the writer.
  virtual std::unique_ptr<AnswerWriter> MakeWriter(AnswerFacts facts,
                                                   const ApiRequest& request) const = 0;
  // Appends the body of an error answer to `body`, and returns its head. `status` is not OK.
  virtual HttpHead WriteError(const absl::Status& status, const ErrorFacts& facts,
                              std::string& body) const = 0;
  // Appends the body of an error without a status code, which was found before the request's body
  // was read. False: such errors have OpenAI's form, and nothing was appended.
  virtual bool WriteRefusal([[maybe_unused]] int http_status,
                            [[maybe_unused]] std::string_view message,
                            [[maybe_unused]] std::string_view request_id,
                            [[maybe_unused]] std::string& body) const {
    return false;
  }
  // The API's own header for the request's id, beside X-Request-Id. Empty: none.
  virtual std::string_view request_id_header() const { return {}; }
  // The error of one prompt of a list, with the prompt's index in its field. The default is for an
  // API whose bodies have one prompt.
  virtual absl::Status OfListedPrompt(const absl::Status& status,
                                      [[maybe_unused]] size_t index) const {
    return status;
  }
};

}  // namespace lockstep::router
