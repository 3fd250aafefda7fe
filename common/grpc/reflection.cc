#include "common/grpc/reflection.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "common/check.h"

namespace lockstep {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

constexpr char kHealthFile[] = R"(
  name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
  message_type {
    name: "HealthCheckRequest"
    field { name: "service" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  }
  message_type {
    name: "HealthCheckResponse"
    field {
      name: "status" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM
      type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus"
    }
    enum_type {
      name: "ServingStatus"
      value { name: "UNKNOWN" number: 0 }
      value { name: "SERVING" number: 1 }
      value { name: "NOT_SERVING" number: 2 }
      value { name: "SERVICE_UNKNOWN" number: 3 }
    }
  }
  service {
    name: "Health"
    method {
      name: "Check" input_type: ".grpc.health.v1.HealthCheckRequest"
      output_type: ".grpc.health.v1.HealthCheckResponse"
    }
    method {
      name: "Watch" input_type: ".grpc.health.v1.HealthCheckRequest"
      output_type: ".grpc.health.v1.HealthCheckResponse" server_streaming: true
    }
  })";

// Appends the file's imports, then the file.
void AppendFile(const FileDescriptor& file, std::set<std::string>& seen,
                standard::ReflectionFiles& files) {
  if (!seen.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AppendFile(*file.dependency(i), seen, files);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  *files.add_file_descriptor_proto() = proto.SerializeAsString();
}

// The descriptors of grpc.health.v1. On the wire they equal the messages in
// proto/lockstep/standard, which have names of our own.
const DescriptorPool& HealthPool() {
  static const DescriptorPool* const pool = [] {
    google::protobuf::FileDescriptorProto file;
    LOCKSTEP_CHECK(google::protobuf::TextFormat::ParseFromString(kHealthFile, &file),
                   "it is a file of messages");
    auto* const made = new DescriptorPool();
    LOCKSTEP_CHECK(made->BuildFile(file) != nullptr, "the file is valid");
    return made;
  }();
  return *pool;
}

const FileDescriptor* FindFile(const std::string& name) {
  const FileDescriptor* const file = DescriptorPool::generated_pool()->FindFileByName(name);
  return file != nullptr ? file : HealthPool().FindFileByName(name);
}

const FileDescriptor* FindFileOf(const std::string& symbol) {
  const FileDescriptor* const file =
      DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol);
  return file != nullptr ? file : HealthPool().FindFileContainingSymbol(symbol);
}

void SetFile(const FileDescriptor* file, const std::string& wanted,
             standard::ReflectionResponse& response) {
  if (file == nullptr) {
    standard::ReflectionError& error = *response.mutable_error_response();
    error.set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
    error.set_error_message(fmt::format("nothing is called \"{}\"", wanted));
    return;
  }
  std::set<std::string> seen;
  AppendFile(*file, seen, *response.mutable_file_descriptor_response());
}

}  // namespace

standard::ReflectionResponse Reflect(const standard::ReflectionRequest& request,
                                     const std::vector<std::string>& services) {
  standard::ReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (request.has_list_services()) {
    for (const std::string& service : services) {
      response.mutable_list_services_response()->add_service()->set_name(service);
    }
  } else if (request.has_file_by_filename()) {
    SetFile(FindFile(request.file_by_filename()), request.file_by_filename(), response);
  } else if (request.has_file_containing_symbol()) {
    SetFile(FindFileOf(request.file_containing_symbol()), request.file_containing_symbol(),
            response);
  } else {
    standard::ReflectionError& error = *response.mutable_error_response();
    error.set_error_code(static_cast<int>(absl::StatusCode::kUnimplemented));
    error.set_error_message("expected list_services, file_by_filename or file_containing_symbol");
  }
  return response;
}

}  // namespace lockstep
