// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Is the coordinator where the settings say, and does it have the key that they pin? Nothing is
// said to it beyond the handshake, so it does not remember this visit.
#include <filesystem>

#include "core/net/channel.hpp"
#include "hosts/cli/doctor/check.hpp"

namespace goblin::cli::doctor {
namespace {

/// A key for one visit, in a directory that goes with it.
class Visitor {
 public:
  Visitor() {
    std::string name = (std::filesystem::temp_directory_path() / "goblin-doctor-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) {
      directory_ = name;
    }
  }
  ~Visitor() {
    std::error_code ignored;
    if (!directory_.empty()) {
      std::filesystem::remove_all(directory_, ignored);
    }
  }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;
  [[nodiscard]] Result<std::shared_ptr<const net::Identity>> identity() const {
    if (directory_.empty()) {
      return fail(Code::kUnavailable, "no temporary directory can be made; set TMPDIR");
    }
    return net::Identity::load_or_create(directory_);
  }

 private:
  std::string directory_;
};

net::Task<void> visit(net::Loop& loop, std::shared_ptr<const net::Identity> self,
                      link::Endpoint place, Result<void>& out) {
  auto channel =
      co_await net::connect_tls(loop, std::move(self), place.host, place.port, place.pin);
  out = channel ? Result<void>() : fail(channel.error());
  if (channel) {
    (*channel)->close();
  }
  loop.stop();
}

Result<void> reach(const link::Endpoint& place) {
  const Visitor visitor;
  GOBLIN_TRY(const auto self, visitor.identity());
  GOBLIN_TRY(const std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  Result<void> out = fail(Code::kCancelled, "interrupted");
  loop->spawn(visit(*loop, self, place, out));
  loop->run();
  return out;
}

}  // namespace

void check_coordinator(const Subject& subject, Findings& findings) {
  if (!subject.coordinator) {
    return;
  }
  const link::Endpoint& place = *subject.coordinator;
  const std::string where = place.host + ":" + std::to_string(place.port);
  const auto reached = reach(place);
  if (reached) {
    findings.good("coordinator", where + " answers with the pinned key");
  } else if (reached.error().code == Code::kCorrupt) {
    findings.bad("coordinator", where + ": " + reached.error().message,
                 "ask its operator for its pin, and set coordinator.pin; if it should not have "
                 "changed, somebody may stand between");
  } else {
    findings.bad("coordinator", where + ": " + reached.error().message,
                 "check coordinator.address, this computer's network and firewall, and whether the "
                 "coordinator runs");
  }
}

}  // namespace goblin::cli::doctor
