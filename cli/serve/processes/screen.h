#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/terminal.h"
#include "cli/serve/processes/log_follower.h"
#include "common/net/address.h"

// Texts of `lockstep serve`. Pure.
namespace lockstep::cli {

struct Served {
  std::string model;          // as the user named it
  std::string where;          // "on the CPU", "on 8 GPUs"
  Address address;            // where the API listens
  bool tls = false;           // the API's
  bool keys = false;          // the API requires a key
  std::string admin_address;  // of the router's metrics
  std::string log_folder;
};

// The address that a client on this machine uses: 127.0.0.1 for 0.0.0.0, ::1 for ::.
Address ClientAddress(const Address& address);

// The text once everything is ready: what is served, and how to use it.
std::string StartScreen(const Served& served, const Paint& paint);

// "loading weights: 30 %" of the slowest worker; "starting" if any worker has reported nothing yet.
std::string ProgressText(const std::vector<std::optional<LoadingProgress>>& workers);

// "port 8000 is taken; 8001 is free: lockstep serve MODEL --port 8001". `free_port` 0: none was
// found.
std::string PortTakenText(const std::string& model, uint16_t port, uint16_t free_port);

// `word` in quotes, if a shell needs them.
std::string ShellQuoted(const std::string& word);

}  // namespace lockstep::cli
