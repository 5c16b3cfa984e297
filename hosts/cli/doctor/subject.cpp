// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/doctor/subject.hpp"

#include "hosts/common/installation.hpp"
#include "hosts/coordinator/coordinator.hpp"
#include "hosts/lab/node.hpp"
#include "hosts/volunteer/host.hpp"

namespace goblin::cli::doctor {
namespace {

void take(Subject& subject, const coordinator::CoordinatorConfig& config) {
  subject.listen_address = config.address;
  subject.listen_port = config.port;
  subject.connections = config.listener.connections;
  subject.publisher = config.publisher;
}

void take(Subject& subject, const lab::LabConfig& config) {
  subject.listen_address = config.address;
  subject.listen_port = config.port;
  subject.connections = config.listener.connections;
  subject.coordinator =
      link::Endpoint{config.coordinator, config.coordinator_port, config.coordinator_pin};
  subject.catalogue = config.catalogue;
  subject.runner = config.engine.runner;
  subject.disk_bytes = config.staging_bytes;
}

void take(Subject& subject, const volunteer::HostConfig& config) {
  subject.coordinator =
      link::Endpoint{config.coordinator, config.coordinator_port, config.coordinator_pin};
  subject.catalogue = config.catalogue;
  subject.runner = config.runner;
  subject.memory_bytes = config.memory_bytes;
  subject.disk_bytes = config.cache_bytes + config.plugin_cache_bytes;
}

template <typename Config>
void read(Subject& subject, Result<Config> (*read_config)(hosts::ConfigReader&)) {
  auto reader = open_config(subject.role, subject.options);
  if (!reader) {
    subject.settings = fail(reader.error());
    return;
  }
  auto config = read_config(*reader);
  if (!config) {
    subject.settings = fail(config.error());
    return;
  }
  subject.state_dir = config->state_dir;
  subject.socket =
      config->socket.empty() ? config->state_dir + "/" + subject.role + ".sock" : config->socket;
  take(subject, *config);
}

}  // namespace

Subject examine(const std::string& role, const RoleOptions& options) {
  Subject subject;
  subject.role = role;
  subject.options = options;
  if (role == "coordinator") {
    read<coordinator::CoordinatorConfig>(subject, &coordinator::read_config);
  } else if (role == "lab") {
    read<lab::LabConfig>(subject, &lab::read_config);
  } else if (role == "host") {
    read<volunteer::HostConfig>(subject, &volunteer::read_config);
  }
  if (role != kMachine) {
    subject.source = config_file(role, options).source;
  }
  if (!subject.runner && role != "coordinator") {
    // Also where settings are wrong: whether a plugin could be loaded does not depend on them.
    const auto installation = hosts::Installation::locate("");
    const auto runner = installation ? installation->runner() : fail(installation.error());
    if (runner) {
      subject.runner.emplace();
      subject.runner->runner = *runner;
      subject.runner->backend = installation->backend("cpu").value_or("");
    }
  }
  return subject;
}

}  // namespace goblin::cli::doctor
