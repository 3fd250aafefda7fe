#include "router/calls/scanners/marker_scanner.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::router {
namespace {

MarkerScanner ScannerFor(std::vector<std::string_view> markers) {
  MarkerScanner scanner;
  std::string released;
  scanner.SetMarkers(std::move(markers), released);
  return scanner;
}

// The text, with "(i)" in place of marker i, and what is held at the end behind a "|".
std::string Scan(MarkerScanner scanner, std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (const std::optional<size_t> found = scanner.Push(c, out)) {
      out += "(" + std::to_string(*found) + ")";
    }
  }
  return out + "|" + scanner.held();
}

TEST(MarkerScannerTest, FindsMarkers) {
  EXPECT_EQ(Scan(ScannerFor({"<a>", "<bc>"}), "x<a>y<bc><a>"), "x(0)y(1)(0)|");
  EXPECT_EQ(Scan(ScannerFor({"", "<a>"}), "<a>"), "(1)|");
}

TEST(MarkerScannerTest, HoldsOnlyWhatMayBecomeAMarker) {
  EXPECT_EQ(Scan(ScannerFor({"<a>", "<bc>"}), "x<b"), "x|<b");
  EXPECT_EQ(Scan(ScannerFor({"<a>", "<bc>"}), "x<bd"), "x<bd|");
  EXPECT_EQ(Scan(ScannerFor({"<a>", "<bc>"}), "<<<a"), "<<|<a");
  EXPECT_EQ(Scan(ScannerFor({"aab"}), "aaaab"), "aa(0)|");
  EXPECT_EQ(Scan(ScannerFor({"abac", "bad"}), "ababad"), "aba(1)|");
  EXPECT_EQ(Scan(ScannerFor({}), "<a>"), "<a>|");
}

TEST(MarkerScannerTest, OtherMarkersReleaseWhatWaits) {
  MarkerScanner scanner = ScannerFor({"<a>", "<b>"});
  std::string released;
  scanner.Push('<', released);
  scanner.Push('a', released);
  scanner.SetMarkers({"<ab>"}, released);
  EXPECT_EQ(released, "");
  scanner.SetMarkers({"<b>"}, released);
  EXPECT_EQ(released, "<a");
  EXPECT_FALSE(scanner.empty());
  scanner.SetMarkers({""}, released);
  EXPECT_TRUE(scanner.empty());
}

TEST(TagChoiceTest, SkipsSpaceBeforeATag) {
  TagChoice choice;
  choice.Start({"</f>", "", "</p>"});
  for (const char c : std::string_view(" \n</p")) {
    EXPECT_EQ(choice.Push(c), TagChoice::State::kMore);
  }
  EXPECT_EQ(choice.num_seen(), 3U);
  EXPECT_EQ(choice.Push('>'), TagChoice::State::kMatched);
  EXPECT_EQ(choice.index(), 2U);
}

TEST(TagChoiceTest, OtherTextIsAMismatch) {
  TagChoice choice;
  choice.Start({"</f>"});
  EXPECT_EQ(choice.Push('<'), TagChoice::State::kMore);
  EXPECT_EQ(choice.Push(' '), TagChoice::State::kMismatch);
  EXPECT_EQ(choice.num_seen(), 1U);
  choice.Start({""});
  EXPECT_EQ(choice.Push('x'), TagChoice::State::kMismatch);
}

}  // namespace
}  // namespace lockstep::router
