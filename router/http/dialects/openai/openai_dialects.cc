#include "router/http/dialects/openai/openai_dialects.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/dialects/openai/openai_writer.h"

namespace lockstep::router {
namespace {

using Parse = absl::StatusOr<OpenAiRequest> (*)(std::string_view body, const BodyReading& reading);

class OpenAiDialect final : public Dialect {
 public:
  OpenAiDialect(std::string_view operation, Parse parse, const AnswerFormat& format)
      : operation_(operation), parse_(parse), format_(format) {}

  std::string_view operation() const override { return operation_; }

  absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(std::string_view body,
                                                       const BodyReading& reading) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(OpenAiRequest request, parse_(body, reading));
    return std::make_unique<OpenAiRequest>(std::move(request));
  }

  std::unique_ptr<AnswerWriter> MakeWriter(AnswerFacts facts,
                                           const ApiRequest& request) const override {
    const lockstep::v1::OutputOptions& output = request.prompts[0].output();
    return OpenAiWriter::Make(
        {.id = fmt::format("{}{}", format_.id_prefix, request.request_id),
         .facts = std::move(facts),
         .format = &format_,
         .skip_special_tokens = !output.has_skip_special_tokens() || output.skip_special_tokens()},
        static_cast<const OpenAiRequest&>(request));
  }

  HttpHead WriteError(const absl::Status& status, const ErrorFacts& facts,
                      std::string& body) const override {
    OpenAiError::Of(status, format_.field_names).AppendJson(body);
    return ErrorHead(status, facts.retry_after);
  }

  absl::Status OfListedPrompt(const absl::Status& status, size_t index) const override {
    return router::OfListedPrompt(status, index);
  }

 private:
  const std::string_view operation_;
  const Parse parse_;
  const AnswerFormat& format_;
};

}  // namespace

const Dialect& CompletionDialect() {
  static const OpenAiDialect kDialect("text_completion", ParseCompletionRequest,
                                      CompletionFormat());
  return kDialect;
}

const Dialect& ChatDialect() {
  static const OpenAiDialect kDialect("chat", ParseChatRequest, ChatFormat());
  return kDialect;
}

}  // namespace lockstep::router
