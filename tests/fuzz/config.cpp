// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A configuration file, read as each type of setting; and the texts of units by themselves.
#include <algorithm>
#include <cmath>

#include "hosts/common/config_reader.hpp"
#include "hosts/common/units.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

using namespace std::chrono_literals;

void units(std::string_view text) {
  if (const auto bytes = hosts::parse_bytes(text)) {
    expect(!hosts::format_bytes(*bytes).empty(), "a size can be shown");
  }
  if (const auto time = hosts::parse_duration(text)) {
    expect(*time >= 0ms, "no duration is negative");
    expect(!hosts::format_duration(*time).empty(), "a duration can be shown");
  }
  if (const auto share = hosts::parse_percent(text)) {
    expect(*share >= 0 && *share <= 1, "a share lies between 0 and 1");
  }
}

void run(ByteView input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  units(text);
  auto values = hosts::parse_config(text, "fuzz.toml");
  if (!values) {
    expect(values.error().code == Code::kInvalidArgument, "what is no TOML is kInvalidArgument");
    expect(values.error().message.find("fuzz.toml") != std::string::npos,
           "an error names the file");
    return;
  }
  for (const auto& [key, value] : *values) {
    expect(value.where.starts_with("fuzz.toml:"), "a value knows its place");
    if (const auto* string = std::get_if<std::string>(&value.data)) units(*string);
  }
  hosts::ConfigReader reader(*values, {});
  expect(reader.bytes("memory", 1u << 20, {.min = 4096, .max = 1u << 30}) >= 4096, "in its range");
  const auto wait = reader.duration("listen.timeout", 5s, {.min = 100ms, .max = 1h});
  expect(wait >= 100ms && wait <= 1h, "in its range");
  expect(reader.u64("listen.port", 7400, {.min = 1, .max = 65535}) <= 65535, "in its range");
  const double share = reader.percent("cores", 0.5);
  expect(share >= 0 && share <= 1, "in its range");
  const double real = reader.real("speed", 1.5, {.min = 0, .max = 10});
  expect(real >= 0 && real <= 10, "in its range");
  (void)reader.boolean("verbose", false);
  (void)reader.string("name", "");
  (void)reader.list("kinds", {});
  const std::string level = reader.choice("log.level", "info", {"info", "debug"});
  expect(level == "info" || level == "debug", "one of the choices");
  (void)reader.required_string("directory", "a directory");
  if (const auto done = reader.finish(); !done) {
    expect(done.error().code == Code::kInvalidArgument && !done.error().message.empty(),
           "every problem is named");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const std::string_view text :
       {"memory = \"256MiB\"\ncores = \"50%\"\nspeed = 2.5\nverbose = true\nname = \"a\"\n"
        "directory = \"/tmp\"\nkinds = [\"matmul/1\", 'b']\n[listen]\nport = 7_400\ntimeout = "
        "\"5s\"\n"
        "[log]\nlevel = \"debug\"\n",
        "memory = 0x100000\nspeed = 1e3\nname = \"\"\"\nmany\nlines \\u00e4\"\"\"\n",
        "when = 2026-12-01T05:10:00Z\nspeed = nan\n[[list]]\nof = {a = 1, b = [1, 2.0]}\n",
        "1.5 GB", "250ms", "50%", "lsiten.port = 1\nlisten = 3\n"}) {
    all.push_back(Script().text(text).take());
  }
  return all;
}

}  // namespace

Target config_target() { return {"config", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
