#include "tests/rigs/soak/attacks/attackers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/attacks/raw_connection.h"

namespace lockstep::bench {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLargeBytes = 9'000'000;  // just below what the router reads
constexpr milliseconds kPatience(500);

std::string Request(std::string_view path, std::string_view key, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}",
      path, key, body.size(), body);
}

// Counts what a connection was answered; nothing if nothing has come.
void CountAnswer(RawConnection& connection, milliseconds patience, AttackTally& tally) {
  const std::string start = connection.Read(64, patience);
  if (start.starts_with("HTTP/1.1 2")) ++tally.num_answered;
  if (start.starts_with("HTTP/1.1 4") || start.starts_with("HTTP/1.1 5")) ++tally.num_refused;
  if (!connection.open()) ++tally.num_cut_off;
}

// A request that is sent again and again on connections that nothing is read from. The oldest
// connection gives way to the next.
struct UnreadRequest {
  std::string request;
  size_t num_connections;
  milliseconds pause;  // after each connection
};

void LeaveUnread(const AttackTarget& target, const UnreadRequest& unread_request,
                 const std::stop_token& stop, AttackTally& tally) {
  const auto& [request, num_connections, pause] = unread_request;
  std::vector<RawConnection> unread(num_connections);
  for (size_t next = 0; !stop.stop_requested(); next = (next + 1) % num_connections) {
    if (unread[next].open()) CountAnswer(unread[next], milliseconds(0), tally);
    unread[next] = RawConnection(target.http_address);
    ++tally.num_attempts;
    unread[next].Send(request, kPatience);
    PaceFor(pause);
  }
}

// Never closed strings of characters that grow when they are quoted.
void SendMalformedBodies(const AttackTarget& target, const std::stop_token& stop,
                         AttackTally& tally) {
  const std::string request =
      Request("/v1/completions", kGreedyKey, "{\"prompt\": \"" + std::string(kLargeBytes, '\x7f'));
  LeaveUnread(target, {request, 110, milliseconds(20)}, stop, tally);
}

// Small on the way in, large once it is read.
void SendDeepBodies(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  std::string body = "{\"prompt\": [[";
  while (body.size() < kLargeBytes / 3) body += "{},";
  LeaveUnread(target,
              {Request("/v1/completions", kGreedyKey, body + "{}]]}"), 16, milliseconds(50)}, stop,
              tally);
}

void LeaveTokensUnread(const AttackTarget& target, const std::stop_token& stop,
                       AttackTally& tally) {
  std::string words;
  while (words.size() < 250'000) words += "a b ";
  LeaveUnread(target,
              {Request("/tokenize", kGreedyKey,
                       "{\"return_token_strs\": true, \"prompt\": \"" + words + "\"}"),
               110, milliseconds(20)},
              stop, tally);
}

void LeaveStreamsUnread(const AttackTarget& target, const std::stop_token& stop,
                        AttackTally& tally) {
  LeaveUnread(
      target,
      {Request("/v1/completions", kGreedyKey,
               R"({"prompt": [1, 2, 3], "max_tokens": 100, "stream": true, "logprobs": 5})"),
       16, milliseconds(100)},
      stop, tally);
}

// A byte now and then, on many connections.
void SendHeadersSlowly(const AttackTarget& target, const std::stop_token& stop,
                       AttackTally& tally) {
  std::vector<RawConnection> slow(64);
  while (!stop.stop_requested()) {
    for (RawConnection& connection : slow) {
      if (connection.open()) {
        connection.Send("x", milliseconds(0));
        if (!connection.open()) ++tally.num_cut_off;
        continue;
      }
      connection = RawConnection(target.http_address);
      ++tally.num_attempts;
      connection.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: ", kPatience);
    }
    PaceFor(milliseconds(100));
  }
}

void HoldIdleConnections(const AttackTarget& target, const std::stop_token& stop,
                         AttackTally& tally) {
  std::vector<RawConnection> idle(256);
  while (!stop.stop_requested()) {
    for (RawConnection& connection : idle) {
      if (connection.open()) {
        connection.Read(1, milliseconds(0));
        if (!connection.open()) ++tally.num_cut_off;
        continue;
      }
      connection = RawConnection(target.http_address);
      ++tally.num_attempts;
    }
    PaceFor(milliseconds(200));
  }
}

// Large and well formed, of a tenant that may have next to nothing.
void SendBodiesBeyondTheLimit(const AttackTarget& target, const std::stop_token& stop,
                              AttackTally& tally) {
  std::string ids = "{\"max_tokens\": 1, \"truncate_prompt_tokens\": 1, \"prompt\": [1";
  while (ids.size() < size_t{2} << 20) ids += ",1";
  const std::string request = Request("/v1/completions", kLimitedKey, ids + "]}");
  while (!stop.stop_requested()) {
    RawConnection connection(target.http_address);
    ++tally.num_attempts;
    connection.Send(request, kPatience);
    CountAnswer(connection, kPatience, tally);
    PaceFor(milliseconds(20));
  }
}

void StartAndCancel(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally) {
  const std::string request =
      Request("/v1/completions", kGreedyKey,
              R"({"prompt": [5, 6, 7, 8], "max_tokens": 200, "stream": true})");
  while (!stop.stop_requested()) {
    RawConnection connection(target.http_address);
    ++tally.num_attempts;
    connection.Send(request, kPatience);
    // One in four waits for the first tokens.
    if (tally.num_attempts % 4 == 0) CountAnswer(connection, kPatience, tally);
    connection.Close();
    PaceFor(milliseconds(20));
  }
}

constexpr std::array<Attacker, 8> kHttp1Attackers = {{
    {"malformed-bodies", true, &SendMalformedBodies},
    {"deep-bodies", false, &SendDeepBodies},
    {"unread-tokens", true, &LeaveTokensUnread},
    {"unread-streams", false, &LeaveStreamsUnread},
    {"slow-headers", false, &SendHeadersSlowly},
    {"idle-connections", false, &HoldIdleConnections},
    {"limited-tenant", true, &SendBodiesBeyondTheLimit},
    {"start-and-cancel", false, &StartAndCancel},
}};

}  // namespace

std::span<const Attacker> Http1Attackers() { return kHttp1Attackers; }

std::vector<Attacker> AllAttackers() {
  std::vector<Attacker> all;
  for (const auto attackers : {Http1Attackers(), Http2Attackers()}) {
    all.insert(all.end(), attackers.begin(), attackers.end());
  }
  return all;
}

absl::StatusOr<std::vector<Attacker>> AttackersNamed(const std::vector<std::string>& names) {
  std::vector<Attacker> attackers = AllAttackers();
  const auto is_named = [](const std::string& name) {
    return [&name](const Attacker& attacker) { return attacker.name == name; };
  };
  for (const std::string& name : names) {
    if (std::ranges::any_of(attackers, is_named(name))) continue;
    std::vector<std::string_view> known;
    for (const Attacker& attacker : attackers) known.push_back(attacker.name);
    return InvalidArgument("attacks: expected some of {}, got {}", fmt::join(known, ","), name);
  }
  if (names.empty()) return attackers;
  std::erase_if(attackers, [&names](const Attacker& attacker) {
    return std::ranges::find(names, attacker.name) == names.end();
  });
  return attackers;
}

// The hashes are those of the keys in the header.
std::string HostileTenants() {
  return R"({"tenants": [
  {"name": "honest",
   "key_sha256": ["af9c1a1681726e9e36ea12c5be4363b00796ab3062af2c6e8dc46cda17e787f9"]},
  {"name": "greedy", "max_open_requests": 256,
   "key_sha256": ["132f93ac393cec7e3cc6a5b5ac34a789f5746f1f2a78e49aaa4e9c0b3c215e1a"]},
  {"name": "greedy-2", "max_open_requests": 256,
   "key_sha256": ["11c78268df246a3eac9250c1c49297b773d6c37915315877955d8e5cc2b6669d"]},
  {"name": "limited", "tokens_per_second": 0.01, "burst_tokens": 1, "max_open_requests": 1,
   "key_sha256": ["f33b2500796d61f96eeef0f5331ddc40c17e434aff139f4d9e00bfe75170d87a"]}
]})";
}

}  // namespace lockstep::bench
