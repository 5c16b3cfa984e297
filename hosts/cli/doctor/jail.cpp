// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The jail that runners get here: one is started, closed, and tried from inside.
#include "hosts/cli/doctor/check.hpp"

namespace goblin::cli::doctor {
namespace {

std::string join(const std::vector<jail::Layer>& layers) {
  std::string text;
  for (const jail::Layer layer : layers) {
    text += (text.empty() ? "" : ", ") + std::string(jail::name(layer));
  }
  return text;
}

void show_layers(const plugin::JailProbe& probe, Findings& findings) {
  for (std::size_t i = 0; i < jail::kLayers; ++i) {
    const auto layer = static_cast<jail::Layer>(i);
    const std::string what = "layer " + std::string(jail::name(layer));
    const jail::LayerState& state = probe.report.of(layer);
    if (state.there) {
      findings.good(what, state.detail.empty() ? "there" : state.detail);
    } else {
      findings.note(what, "missing: " + state.detail, std::string(jail::remedy(layer)));
    }
  }
}

void show_protections(const plugin::JailProbe& probe, Findings& findings) {
  for (std::size_t i = 0; i < jail::kProtections; ++i) {
    const auto protection = static_cast<jail::Protection>(i);
    const std::string what = "protects " + std::string(jail::name(protection));
    if (const auto way = jail::enforced_by(probe.report, protection)) {
      findings.good(what, "by " + join(*way));
    } else {
      findings.bad(
          what, "by no layer",
          "mend one of the layers above: " + join(jail::ways(protection).front()) + " is enough");
    }
  }
}

}  // namespace

void check_jail(const Subject& subject, Findings& findings) {
  if (!subject.runner) {
    return;  // a coordinator has none; a missing program was told
  }
  plugin::RunnerOptions options = *subject.runner;
  const auto groups = plugin::ControlGroups::open();
  options.groups = groups.value_or(nullptr);
  auto probe = plugin::probe_jail(options);
  if (probe && !groups) {
    probe->report.missing(jail::Layer::kCgroup, groups.error().message);
  }
  if (!probe) {
    findings.bad("jail", probe.error().message,
                 probe.error().code == Code::kUnavailable ? "mend what it names"
                                                          : "install one version of all programs");
    return;
  }
  if (!probe->device.empty()) {
    findings.good("device", probe->device);
  }
  if (!probe->report.left_out.empty()) {
    findings.bad("jail", "this build has none: " + probe->report.left_out, "use it for tests only");
    return;
  }
  show_layers(*probe, findings);
  show_protections(*probe, findings);
  for (const std::string& escape : probe->escapes) {
    findings.bad("jail", "a test inside found that " + escape,
                 "report it: the kernel says that it denies this");
  }
  if (!probe->refused.empty()) {
    findings.bad("jail", probe->refused, "mend the layers that it names");
  } else {
    findings.good("jail", "plugins are loaded in it");
  }
}

}  // namespace goblin::cli::doctor
