#include "router/front/http1/chunk_extensions.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lockstep::router {
namespace {

using std::string_literals::operator""s;

// RFC 9112, 7.1.1, and RFC 9110, 5.6.2 and 5.6.4.
TEST(ChunkExtensionsTest, AreNamesWithOrWithoutValues) {
  for (const std::string_view text :
       {"", ";a", ";a=b", ";a=b;c=d", ";a;b;c", " ; a = b", "\t;\ta\t=\tb", ";a=\"\"", ";a=\"b c\"",
        ";a=\"b;c=d\"", R"(;a="b\"c")", R"(;a="\\")", ";a=\"\t\"", ";a=\"\xc3\xa9\"",
        ";!#$%&'*+-.^_`|~=0", ";a=\"b\" ;c"}) {
    EXPECT_TRUE(AreChunkExtensions(text)) << text;
  }
  for (const std::string& text : {"a"s,           ";"s,           ";;"s,
                                  ";a;"s,         ";=b"s,         ";a="s,
                                  ";a=;b"s,       ";a b"s,        ";a=b c"s,
                                  ";a=\""s,       ";a=\"b"s,      ";a=\"b\"c"s,
                                  R"(;a="b\)"s,   R"(;a="b\")"s,  ";a=\"\x01\""s,
                                  ";a=\"\x1f\""s, ";a=\"\x7f\""s, ";a=\"\0\""s,
                                  ";a=\"\r\""s,   ";a=\"\n\""s,   ";a=\"\\\x01\""s,
                                  ";a\x01"s,      ";a=\x01"s,     ";\xc3\xa9"s,
                                  ";a=\xc3\xa9"s, ";a=b\x7f"s,    ";a(b"s,
                                  " "s,           ";a "s}) {
    EXPECT_FALSE(AreChunkExtensions(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep::router
