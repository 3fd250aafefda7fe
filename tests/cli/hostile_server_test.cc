// `lockstep` against servers that mean harm to their clients and to their terminals.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/v1/generation.grpc.pb.h"
#include "tests/cli/cli_fixture.h"

namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Sets a terminal's title, clears its screen, and asks it to answer as if the user had typed.
constexpr char kHarm[] =
    "\x1b]0;owned\x07\x1b[2J\xc2\x9b"
    "c\x7f";

// Says what it is told.
class HostileServer final : public v1::Generation::Service {
 public:
  HostileServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
    model.set_id(std::string("a-model") + kHarm);
    model.set_ready(true);
  }
  ~HostileServer() override { server_->Shutdown(); }

  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::Model* answer) override {
    *answer = model;
    return model_status;
  }
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    for (const v1::GenerateResponse& message : messages) writer->Write(message);
    return status;
  }

  void Say(const std::string& text) {
    v1::GenerateResponse delta;
    delta.mutable_delta()->set_text(text);
    delta.mutable_delta()->add_token_ids(1);
    v1::GenerateResponse finish;
    finish.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
    finish.mutable_finish()->mutable_usage()->set_completion_tokens(1);
    messages = {delta, finish};
  }

  // Before the end of what it says.
  void Call(const std::string& name, const std::string& arguments) {
    v1::GenerateResponse delta;
    v1::ToolCallDelta* const call = delta.mutable_delta()->add_tool_calls();
    call->set_id("c");
    call->set_name(name);
    call->set_arguments(arguments);
    messages.insert(messages.end() - 1, delta);
  }

  std::string address;
  v1::Model model;
  grpc::Status model_status;
  std::vector<v1::GenerateResponse> messages;
  grpc::Status status;

 private:
  std::unique_ptr<grpc::Server> server_;
};

class HostileServerTest : public CliTest {
 protected:
  // To its end.
  int Run(const std::vector<std::string>& arguments, bool terminal) {
    CliProcess process(arguments, Options(terminal));
    const int code = process.Wait();
    output_ = process.output();
    return code;
  }
  std::vector<std::string> GenerateArguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"generate", "--router", server_.address, "--prompt", "x"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void ExpectHarmless() const {
    EXPECT_THAT(output_,
                AllOf(Not(HasSubstr("\x1b]0")), Not(HasSubstr("\x1b[2J")),
                      Not(HasSubstr("\xc2\x9b")), Not(HasSubstr("\x7f")), Not(HasSubstr("\x07"))));
  }

  HostileServer server_;
  std::string output_;
};

TEST_F(HostileServerTest, GenerateKeepsControlsFromATerminal) {
  server_.Say(std::string("before") + kHarm + "after");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--json"}, {"--n", "2"}}) {
    Run(GenerateArguments(more), /*terminal=*/true);
    EXPECT_THAT(output_, AllOf(HasSubstr("before"), HasSubstr("after")));
    ExpectHarmless();
  }
}

TEST_F(HostileServerTest, GenerateGivesAPipeTheAnswerAsItIs) {
  const std::string text = std::string("before") + kHarm + "after";
  server_.Say(text);
  EXPECT_EQ(Run(GenerateArguments(), /*terminal=*/false), 0);
  EXPECT_EQ(output_, text + "\n");
}

TEST_F(HostileServerTest, CallsOfToolsArePrinted) {
  server_.Say("I look.");
  server_.Call("get_weather", R"({"city": "Paris"})");
  EXPECT_EQ(Run(GenerateArguments(), /*terminal=*/false), 0);
  EXPECT_EQ(output_, "I look.\ncall get_weather {\"city\": \"Paris\"}\n");
  server_.Say("");
  server_.Call("now", "{}");
  EXPECT_EQ(Run(GenerateArguments(), /*terminal=*/false), 0);
  EXPECT_EQ(output_, "call now {}\n");
  // The chats of both programs, too.
  for (const std::string& verb :
       {"chat --url " + server_.address, "generate --interactive --router " + server_.address}) {
    SCOPED_TRACE(verb);
    const std::string command = "printf 'hi\\nho\\n' | " LOCKSTEP_BIN_DIR "/lockstep " + verb;
    EXPECT_EQ(RunShell("(" + command + " 2>/dev/null)").output, "call now {}\ncall now {}\n");
  }
  server_.Say("");
  server_.Call(std::string("na") + kHarm + "me", std::string("argu") + kHarm + "ments");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--json"}, {"--n", "2"}}) {
    Run(GenerateArguments(more), /*terminal=*/true);
    EXPECT_THAT(output_, AllOf(HasSubstr("na"), HasSubstr("ments")));
    ExpectHarmless();
  }
  CliProcess chat({"chat", "--url", server_.address}, Options(/*terminal=*/true));
  ASSERT_TRUE(chat.WaitFor("> "));
  chat.Type("hello\n");
  EXPECT_TRUE(chat.WaitFor("call na"));
  EXPECT_TRUE(chat.WaitFor("ments"));
  ASSERT_TRUE(chat.WaitFor("> "));
  chat.Type("\x04");
  EXPECT_EQ(chat.Wait(), 0);
}

TEST_F(HostileServerTest, ErrorsNeverSteerATerminal) {
  server_.status = {grpc::StatusCode::INTERNAL, std::string("broken") + kHarm};
  server_.model_status = server_.status;
  for (const bool terminal : {true, false}) {
    EXPECT_EQ(Run(GenerateArguments(), terminal), 1);
    EXPECT_THAT(output_, HasSubstr("broken"));
    ExpectHarmless();
    EXPECT_EQ(Run({"chat", "--url", server_.address}, terminal), 1);
    EXPECT_THAT(output_, HasSubstr("broken"));
    ExpectHarmless();
    EXPECT_EQ(
        Run({"bench", "--api", "grpc", "--url", server_.address, "--requests", "2"}, terminal), 1);
    EXPECT_THAT(output_, HasSubstr("broken"));
    ExpectHarmless();
  }
}

TEST_F(HostileServerTest, AnOutputThatNobodyAskedForIsAnError) {
  for (const bool in_finish : {false, true}) {
    v1::GenerateResponse message;
    if (in_finish) message.mutable_finish()->set_index(4'000'000'000);
    if (!in_finish) message.mutable_delta()->set_index(4'000'000'000);
    server_.messages = {message};
    EXPECT_EQ(Run(GenerateArguments(), false), 1);
    EXPECT_THAT(output_, HasSubstr("the server sent output 4000000000, although 1 were asked for"));

    CliProcess chat({"chat", "--url", server_.address}, Options(/*terminal=*/true));
    ASSERT_TRUE(chat.WaitFor("/help lists commands"));
    ASSERT_TRUE(chat.WaitFor("> "));
    chat.Type("hello\n");
    EXPECT_TRUE(chat.WaitFor("the server sent output 4000000000"));
    ASSERT_TRUE(chat.WaitFor("> "));
    chat.Type("\x04");
    EXPECT_EQ(chat.Wait(), 1) << "its last answer was an error";
  }
}

}  // namespace
}  // namespace lockstep::testing
