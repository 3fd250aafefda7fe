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

// The prefix of a message: whether it is compressed (1 byte), and its length (4 bytes).
inline constexpr size_t kMessagePrefixBytes = 5;

// True if a request with this content type is a gRPC call, with messages of any kind.
bool IsGrpcContentType(std::string_view content_type);

// Parses the value of "grpc-timeout": up to eight digits and a unit. Nothing if it is malformed.
std::optional<absl::Duration> ParseGrpcTimeout(std::string_view text);

// The header of every response.
HeaderList AnswerHead();
// Appends the trailers of a status. Long values are cut or left out, so that all trailers together
// stay below the 8 KiB that clients read.
void AppendStatus(const GrpcStatus& status, HeaderList& fields);

// Base64 without padding.
std::string Base64(std::string_view bytes);

// Writes the prefix of a message of `num_bytes` bytes.
void WriteMessagePrefix(size_t num_bytes, char* to);
// Reads the message length from such a prefix.
size_t ReadMessageSize(const char* prefix);

}  // namespace lockstep::router
