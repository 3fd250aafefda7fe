#include "common/grpc/reflection.h"

#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/v1/generation.pb.h"

namespace lockstep {
namespace {

const std::vector<std::string> kServices = {"lockstep.v1.Generation", "another.Service"};

standard::ReflectionRequest ForSymbol(const std::string& symbol) {
  standard::ReflectionRequest request;
  request.set_file_containing_symbol(symbol);
  return request;
}

std::vector<std::string> FileNames(const standard::ReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

TEST(ReflectionTest, ListsTheServices) {
  standard::ReflectionRequest request;
  request.set_host("here");
  request.set_list_services("*");
  const standard::ReflectionResponse response = Reflect(request, kServices);
  EXPECT_EQ(response.valid_host(), "here");
  EXPECT_EQ(response.original_request().list_services(), "*");
  ASSERT_EQ(response.list_services_response().service_size(), 2);
  EXPECT_EQ(response.list_services_response().service(0).name(), kServices[0]);
  EXPECT_EQ(response.list_services_response().service(1).name(), kServices[1]);
}

TEST(ReflectionTest, AFileComesBehindWhatItImports) {
  const std::string file = lockstep::v1::GenerateRequest::descriptor()->file()->name();
  standard::ReflectionRequest request;
  request.set_file_by_filename(file);
  const std::vector<std::string> by_name = FileNames(Reflect(request, kServices));
  ASSERT_FALSE(by_name.empty());
  EXPECT_EQ(by_name.back(), file);
  EXPECT_EQ(FileNames(Reflect(ForSymbol("lockstep.v1.Generation"), kServices)), by_name);
  EXPECT_EQ(FileNames(Reflect(ForSymbol("lockstep.v1.Generation.Generate"), kServices)), by_name);
}

TEST(ReflectionTest, TheHealthServiceIsDescribedUnderItsOwnName) {
  const std::vector<std::string> file = {"grpc/health/v1/health.proto"};
  EXPECT_EQ(FileNames(Reflect(ForSymbol("grpc.health.v1.Health"), kServices)), file);
  EXPECT_EQ(FileNames(Reflect(ForSymbol("grpc.health.v1.HealthCheckResponse"), kServices)), file);
  standard::ReflectionRequest by_name;
  by_name.set_file_by_filename(file[0]);
  EXPECT_EQ(FileNames(Reflect(by_name, kServices)), file);
}

TEST(ReflectionTest, WhatIsNotThereIsNamed) {
  const standard::ReflectionResponse response = Reflect(ForSymbol("no.Such"), kServices);
  EXPECT_EQ(response.error_response().error_code(), 5);
  EXPECT_EQ(response.error_response().error_message(), "nothing is called \"no.Such\"");
}

TEST(ReflectionTest, OtherQuestionsAreUnimplemented) {
  standard::ReflectionRequest request;
  request.set_all_extension_numbers_of_type("lockstep.v1.GenerateRequest");
  EXPECT_EQ(Reflect(request, kServices).error_response().error_code(), 12);
  EXPECT_EQ(Reflect(standard::ReflectionRequest(), kServices).error_response().error_code(), 12);
}

}  // namespace
}  // namespace lockstep
