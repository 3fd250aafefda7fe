#include "router/grpc/standard_answers.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>

namespace lockstep::router {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// The file behind what it imports.
void AppendFile(const FileDescriptor& file, std::set<std::string>& seen,
                standard::ReflectionFiles& files) {
  if (!seen.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AppendFile(*file.dependency(i), seen, files);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  *files.add_file_descriptor_proto() = proto.SerializeAsString();
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
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  standard::ReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (request.has_list_services()) {
    for (const std::string& service : services) {
      response.mutable_list_services_response()->add_service()->set_name(service);
    }
  } else if (request.has_file_by_filename()) {
    SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(), response);
  } else if (request.has_file_containing_symbol()) {
    SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
            request.file_containing_symbol(), response);
  } else {
    standard::ReflectionError& error = *response.mutable_error_response();
    error.set_error_code(static_cast<int>(absl::StatusCode::kUnimplemented));
    error.set_error_message("expected list_services, file_by_filename or file_containing_symbol");
  }
  return response;
}

}  // namespace lockstep::router
