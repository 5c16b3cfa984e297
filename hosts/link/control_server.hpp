// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The Unix socket through which `goblin … status` and its like ask a running daemon. Loop's thread
// only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/net/channel.hpp"
#include "core/wire/client.hpp"

namespace goblin::link {

class ControlServer {
 public:
  struct Hooks {
    std::function<wire::StatusReport()> status;
    std::function<Result<wire::ReplyBody>(const wire::Control&)> control;  ///< Ok, or a report
  };
  /// Listens and serves until destroyed. kUnavailable when the socket is in use.
  static Result<std::unique_ptr<ControlServer>> open(net::Loop& loop, const std::string& path,
                                                     wire::Role role, Hooks hooks);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct State;
  explicit ControlServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace goblin::link
