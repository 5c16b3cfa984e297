// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/print.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iomanip>

#include "hosts/common/units.hpp"

namespace goblin::cli {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string state_text(wire::JobState state) {
  static constexpr std::array<const char*, 7> kNames = {
      "unknown", "queued", "running", "finishing", "done", "failed", "cancelled"};
  const auto index = static_cast<std::size_t>(state);
  return kNames[index < kNames.size() ? index : 0];
}

Fields fields_of(const wire::JobStatus& s) {
  Fields fields = {
      {"job", std::to_string(s.job)},
      {"kind", s.kind},
      {"state", state_text(s.state)},
      {"tasks accepted", std::to_string(s.tasks_accepted) +
                             (s.plan_done ? " of " + std::to_string(s.tasks_planned) : "")},
      {"results checked", std::to_string(s.results_checked)},
      {"results refused", std::to_string(s.results_refused)},
      {"sent", hosts::format_bytes(s.bytes_sent)},
      {"received", hosts::format_bytes(s.bytes_received)},
      {"wall", hosts::format_duration(std::chrono::milliseconds(s.wall_us / 1000))},
  };
  if (!s.message.empty()) {
    fields.emplace_back("message", s.message);
  }
  return fields;
}

Fields fields_of(const wire::HostReport& h) {
  return {
      {"host", h.host.hex().substr(0, 16)},
      {"connected", h.connected ? "yes" : "no"},
      {"validator", h.validator ? "yes" : "no"},
      {"threads", std::to_string(h.capacity.threads)},
      {"memory", hosts::format_bytes(h.capacity.memory_bytes)},
      {"leases", std::to_string(h.leases)},
      {"accepted", std::to_string(h.accepted)},
      {"confirmed", std::to_string(h.confirmed)},
      {"refused", std::to_string(h.refused)},
      {"failed", std::to_string(h.failed)},
      {"right since its last fault", std::to_string(h.passed)},
      {"faults", std::to_string(h.faults)},
      {"forgiven", std::to_string(h.forgiven)},
      {"quarantined", h.quarantined ? "yes" : "no"},
      {"reason", h.reason},
  };
}

Fields fields_of(const wire::KindInfo& k) {
  Fields fields = {{"kind", k.description.name + "/" + std::to_string(k.description.version)},
                   {"plugin", k.plugin.hex().substr(0, 16)},
                   {"doc", k.description.doc}};
  for (const auto& input : k.description.inputs) {
    fields.emplace_back("array " + input.name, input.doc);
  }
  for (const auto& param : k.description.params) {
    fields.emplace_back("number " + param.name, param.doc);
  }
  for (const auto& output : k.description.outputs) {
    fields.emplace_back("output " + output.name, output.doc);
  }
  return fields;
}

void print_fields(std::ostream& out, const Fields& fields, bool json) {
  if (json) {
    out << "{";
    for (std::size_t i = 0; i < fields.size(); ++i) {
      out << (i == 0 ? "" : ", ") << json_text(fields[i].first) << ": "
          << json_text(fields[i].second);
    }
    out << "}";
    return;
  }
  std::size_t width = 0;
  for (const auto& [name, value] : fields) {
    width = std::max(width, name.size());
  }
  for (const auto& [name, value] : fields) {
    out << std::left << std::setw(static_cast<int>(width) + 2) << name << value << "\n";
  }
}

template <typename Items>
void print_list(std::ostream& out, const Items& items, bool json) {
  if (json) {
    out << "[";
    for (std::size_t i = 0; i < items.size(); ++i) {
      out << (i == 0 ? "" : ", ");
      print_fields(out, fields_of(items[i]), true);
    }
    out << "]\n";
    return;
  }
  for (const auto& item : items) {
    print_fields(out, fields_of(item), false);
    out << "\n";
  }
  if (items.empty()) {
    out << "none\n";
  }
}

void print_explanation(std::ostream& out, const wire::Explanation& e, bool json) {
  if (json) {
    out << "{\"status\": ";
    print_fields(out, fields_of(e.status), true);
    out << ", \"hosts\": ";
    print_list(out, e.hosts, true);
    out << ", \"incidents\": [";
    for (std::size_t i = 0; i < e.incidents.size(); ++i) {
      const auto& incident = e.incidents[i];
      out << (i == 0 ? "" : ", ") << "{\"task\": " << incident.task
          << ", \"host\": " << json_text(incident.host.hex())
          << ", \"what\": " << json_text(incident.what)
          << ", \"detail\": " << json_text(incident.detail) << "}";
    }
    out << "]}\n";
    return;
  }
  print_fields(out, fields_of(e.status), false);
  print_fields(out, e.plan, false);
  out << "\nhosts\n";
  print_list(out, e.hosts, false);
  out << "incidents: " << e.incident_count << "\n";
  for (const auto& incident : e.incidents) {
    out << "  task " << incident.task << "  host " << incident.host.hex().substr(0, 16) << "  "
        << incident.what << "  " << incident.detail << "\n";
  }
}

}  // namespace

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void print(std::ostream& out, const wire::ReplyBody& body, bool json) {
  if (const auto* report = std::get_if<wire::StatusReport>(&body)) {
    print_fields(out, report->fields, json);
    out << (json ? "\n" : "");
  } else if (const auto* jobs = std::get_if<wire::JobList>(&body)) {
    print_list(out, jobs->jobs, json);
  } else if (const auto* hosts_list = std::get_if<wire::HostList>(&body)) {
    print_list(out, hosts_list->hosts, json);
  } else if (const auto* kinds = std::get_if<wire::KindList>(&body)) {
    print_list(out, kinds->kinds, json);
  } else if (const auto* explanation = std::get_if<wire::Explanation>(&body)) {
    print_explanation(out, *explanation, json);
  } else if (const auto* status = std::get_if<wire::JobStatus>(&body)) {
    print_fields(out, fields_of(*status), json);
    out << (json ? "\n" : "");
  } else {
    out << (json ? "{}\n" : "done\n");
  }
}

}  // namespace goblin::cli
