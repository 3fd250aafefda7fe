#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <string_view>

#include "router/front/connection/header_list.h"
#include "router/grpc/call_status.h"

// How gRPC writes things into HTTP/2: headers, trailers and the five bytes before a message
// (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).
namespace lockstep::router {

// Of a message, in front of it: whether it is compressed, and its length.
inline constexpr size_t kMessagePrefixBytes = 5;

// Whether a request of this content type is a call; its messages may be of any kind.
bool IsGrpcContentType(std::string_view content_type);

// The value of "grpc-timeout": up to eight digits and a unit. Nothing when it is no such value.
std::optional<absl::Duration> ParseGrpcTimeout(std::string_view text);

// The header of every answer.
HeaderList AnswerHead();
// Appends the trailers that tell the status. What is long is cut, so that all of them together
// stay below the 8 KiB that clients read.
void AppendStatus(const GrpcStatus& status, HeaderList& fields);

// For values that are not plain ASCII: "%" and what is not printable as %XX.
std::string PercentEncoded(std::string_view text);
// Without padding.
std::string Base64(std::string_view bytes);

// Writes the prefix of a message of so many bytes.
void WriteMessagePrefix(size_t num_bytes, char* to);
// The length that such a prefix tells.
size_t ReadMessageSize(const char* prefix);

}  // namespace lockstep::router
