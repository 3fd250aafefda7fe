#include "common/runtime/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

// The pattern letter %* : the message on one line.
class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& record, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text =
        EscapeControlCharacters({record.payload.data(), record.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

// The pattern letter %& : the message as a JSON string.
class QuotedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& record, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text =
        nlohmann::json(std::string(record.payload.data(), record.payload.size()))
            .dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                  nlohmann::json::error_handler_t::replace);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedMessage>();
  }
};

absl::StatusOr<std::string> ParseFormat(std::string_view name) {
  if (name == "text") return "%Y-%m-%dT%H:%M:%S.%eZ %l [%t] %*";
  if (name == "json") {
    return R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":%&})";
  }
  return InvalidArgument("log format \"{}\", expected text or json", name);
}

absl::StatusOr<spdlog::level::level_enum> ParseLevel(std::string_view name) {
  constexpr std::pair<std::string_view, spdlog::level::level_enum> kLevels[] = {
      {"trace", spdlog::level::trace}, {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},   {"warn", spdlog::level::warn},
      {"error", spdlog::level::err},   {"off", spdlog::level::off}};
  for (const auto& [level_name, level] : kLevels) {
    if (level_name == name) return level;
  }
  return InvalidArgument("log level \"{}\", expected trace, debug, info, warn, error or off", name);
}

}  // namespace

FlagGroup LogFlags(LogConfig& config) {
  return {
      "Log",
      {
          {"log-level", &config.level, "what is logged to stderr",
           OneOf({"trace", "debug", "info", "warn", "error", "off"})},
          {"log-format", &config.format, "json: each line is an object", OneOf({"text", "json"})},
      }};
}

absl::Status InitLogging(std::string_view level, std::string_view format) {
  LOCKSTEP_ASSIGN_OR_RETURN(const spdlog::level::level_enum parsed, ParseLevel(level));
  LOCKSTEP_ASSIGN_OR_RETURN(std::string pattern, ParseFormat(format));
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<EscapedMessage>('*').add_flag<QuotedMessage>('&').set_pattern(
      std::move(pattern));
  auto logger =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace lockstep
