// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 1
#include "hosts/common/config_file.hpp"

#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

namespace goblin::hosts {
namespace {

constexpr std::size_t kMaxBytes = 1u << 20;

std::string show(const toml::node& node) {
  std::ostringstream out;
  // No literal strings: what people see is quoted in one way.
  node.visit(
      [&out](const auto& value) { out << toml::toml_formatter(value, toml::format_flags::none); });
  return out.str();
}

std::string type_name(const toml::node& node) {
  std::ostringstream out;
  out << node.type();
  return out.str();
}

/// Strings as they are, whole numbers as digits; nothing for a list that holds other things.
std::optional<std::vector<std::string>> list_of(const toml::array& array) {
  std::vector<std::string> items;
  for (const toml::node& node : array) {
    if (const auto* text = node.as_string()) {
      items.push_back(text->get());
    } else if (const auto* number = node.as_integer()) {
      items.push_back(std::to_string(number->get()));
    } else {
      return std::nullopt;
    }
  }
  return items;
}

ConfigValue::Data data_of(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return number->get();
  }
  if (const auto* number = node.as_floating_point()) {
    return number->get();
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get();
  }
  if (const auto* array = node.as_array()) {
    if (auto items = list_of(*array)) {
      return *std::move(items);
    }
  }
  return ConfigValue::Other{type_name(node)};
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name,
             std::map<std::string, ConfigValue>& out) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, path + ".", name, out);
      continue;
    }
    out[path] = {data_of(node), show(node), name + ":" + std::to_string(node.source().begin.line)};
  }
}

}  // namespace

Result<std::map<std::string, ConfigValue>> parse_config(std::string_view text,
                                                        const std::string& name) {
  if (text.size() > kMaxBytes) {
    return fail(Code::kInvalidArgument,
                name + ": the file is over 1 MiB; this is no configuration, name another file");
  }
  try {
    std::map<std::string, ConfigValue> values;
    flatten(toml::parse(text, name), "", name, values);
    return values;
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, name + ":" + std::to_string(error.source().begin.line) +
                                            ":" + std::to_string(error.source().begin.column) +
                                            ": not TOML: " + std::string(error.description()) +
                                            "; mend that line (see toml.io)");
  }
}

Result<std::map<std::string, ConfigValue>> read_config_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int reason = errno;
    return fail(reason == ENOENT ? Code::kNotFound : Code::kUnavailable,
                "cannot read configuration '" + path + "': " + std::strerror(reason) +
                    "; name another file or give this user the right to read it");
  }
  // One byte more than allowed, so that parse_config refuses it.
  std::string text(kMaxBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) {
    return fail(Code::kUnavailable, "cannot read configuration '" + path +
                                        "': it is a directory or the disk fails; "
                                        "name another file");
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_config(text, path);
}

}  // namespace goblin::hosts
