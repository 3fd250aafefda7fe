#include "router/http/routes/route_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::router {
namespace {

Route At(std::string path, bool covers_subpaths = false) {
  return {.path = std::move(path), .covers_subpaths = covers_subpaths, .answer = nullptr};
}

TEST(RouteTableTest, FindsAPathAndWhatIsBelowIt) {
  const RouteTable table({At("/a"), At("/b", /*covers_subpaths=*/true), At("/")});
  for (const std::string path : {"/a", "/b", "/b/", "/b/c/d", "/"}) {
    ASSERT_NE(table.Find(path), nullptr) << path;
    EXPECT_TRUE(path.starts_with(table.Find(path)->path));
  }
  for (const std::string path : {"", "/a/", "/ab", "/bc", "/A", "*", "//"}) {
    EXPECT_EQ(table.Find(path), nullptr) << path;
  }
}

TEST(RouteTableTest, NoPathHasTwoRoutes) {
  EXPECT_DEATH(RouteTable({At("/a"), At("/a")}), "two routes cover /a");
  EXPECT_DEATH(RouteTable({At("/a", /*covers_subpaths=*/true), At("/a/b")}), "two routes");
}

TEST(RouteTableTest, EveryRouteHasMethodsAndAnAnswer) {
  const RouteTable table = RouteTable::All();
  for (const char* const path :
       {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages",
        "/v1/messages/count_tokens", "/tokenize", "/detokenize", "/v1/models", "/v1/models/x",
        "/tokenizer_info", "/health", "/ready", "/ping", "/version", "/metrics", "/status.json",
        "/", "/page.css", "/page.js"}) {
    const Route* const route = table.Find(path);
    ASSERT_NE(route, nullptr) << path;
    EXPECT_TRUE(route->answer != nullptr) << path;
    EXPECT_TRUE(route->Takes("OPTIONS")) << path;
    EXPECT_EQ(route->Takes("POST"), route->reads_json || route->path == "/ping") << path;
    EXPECT_EQ(route->Takes("HEAD"), route->Takes("GET")) << path;
    EXPECT_FALSE(route->Takes("DELETE")) << path;
    EXPECT_TRUE(!route->generates || route->reads_json) << path;
  }
}

TEST(RouteTableTest, OnlyHealthAndThePageNeedNoKey) {
  const RouteTable table = RouteTable::All();
  const std::set<std::string> for_everybody = {"/health", "/ready",    "/ping",
                                               "/",       "/page.css", "/page.js"};
  for (const char* const path :
       {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages",
        "/v1/messages/count_tokens", "/tokenize", "/detokenize", "/v1/models", "/tokenizer_info",
        "/health", "/ready", "/ping", "/version", "/metrics", "/status.json", "/", "/page.css",
        "/page.js"}) {
    EXPECT_EQ(table.Find(path)->audience == Audience::kEverybody, for_everybody.contains(path))
        << path;
  }
}

TEST(RouteTableTest, LabelsOfMetricsAreTheRoutesThatHaveOne) {
  Route counted = At("/b", /*covers_subpaths=*/true);
  counted.has_metric = true;
  const RouteTable table({At("/a"), counted});
  const std::vector<RouteLabel> labels = table.Labels();
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_EQ(labels[0].path, "/b");
  EXPECT_TRUE(labels[0].covers_subpaths);
}

}  // namespace
}  // namespace lockstep::router
