// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the commands of one role share: its options, its settings, its socket, its errors.
#pragma once

#include <string>
#include <vector>

#include "core/wire/peer.hpp"
#include "hosts/common/config_reader.hpp"

namespace goblin::cli {

/// What the user gave on the command line, for one role.
struct RoleOptions {
  std::string config;
  std::string state_dir;
  std::string socket;
  std::vector<std::string> set;
  int ready_fd = -1;
  bool json = false;
};

/// Prints it; answers the exit status: 2 for kInvalidArgument, else 1.
int report(const Error& error);
int report(const Result<void>& result);

/// The file of settings: what --config names, or the default if it is there.
struct ConfigFile {
  std::string path;    ///< empty: none is read
  std::string source;  ///< for people: what is read, or where nothing was found
};
ConfigFile config_file(const std::string& role, const RoleOptions& options);
/// The settings of `role` ("coordinator", "lab", "host"): command line, then the file.
Result<hosts::ConfigReader> open_config(const std::string& role, const RoleOptions& options);
/// The daemon's socket: named, or that of its state directory.
Result<std::string> socket_of(const std::string& role, const RoleOptions& options);
/// The error of a request, in words of what to do when nobody listens.
Error unanswered(const std::string& role, const std::string& socket, Error error);
wire::Role role_of(const std::string& role);

}  // namespace goblin::cli
