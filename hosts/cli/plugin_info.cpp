// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/plugin_info.hpp"

#include <iostream>

#include "core/net/sha256.hpp"
#include "core/plugin/note.hpp"
#include "core/plugin/sealed_file.hpp"
#include "hosts/cli/print.hpp"
#include "hosts/common/installation.hpp"

namespace goblin::cli {
namespace {

Result<void> show(const std::string& file, bool json, const char* comma) {
  GOBLIN_TRY(const net::UniqueFd memfd, plugin::make_sealed_memfd_from(file));
  GOBLIN_TRY(const plugin::FileMap map, plugin::FileMap::open(memfd.get()));
  const auto note = plugin::read_note(map.bytes());
  if (!note) {
    return fail(note.error().with_context("'" + file + "'"));
  }
  const std::string digest = net::sha256(map.bytes()).hex();
  if (json) {
    std::cout << comma << "{\"file\": " << json_text(file) << ", \"plugin\": " << json_text(digest)
              << ", \"kinds\": [";
    comma = "";
    for (const auto& kind : note->kinds) {
      std::cout << comma << json_text(kind.text());
      comma = ", ";
    }
    std::cout << "]}";
  } else {
    std::cout << "sha256  " << digest << "\nabi     " << note->abi_major << "." << note->abi_minor
              << "\n";
    for (const auto& kind : note->kinds) {
      std::cout << "kind    " << kind.text() << "\n";
    }
  }
  return plugin::check_abi("plugin", note->abi_major, note->abi_minor);
}

Result<void> show_all(const CatalogueOptions& options) {
  std::vector<std::string> files;
  if (options.installed) {
    GOBLIN_TRY(const hosts::Installation installation, hosts::Installation::locate(""));
    files = installation.plugins();
  }
  files.insert(files.end(), options.files.begin(), options.files.end());
  if (files.empty()) {
    return fail(Code::kInvalidArgument, "name a plugin's library, or give --installed");
  }
  std::cout << (options.role.json ? "[" : "");
  const char* comma = "";
  for (const auto& file : files) {
    if (!options.role.json && files.size() > 1) {
      std::cout << comma << "file    " << file << "\n";
    }
    GOBLIN_TRY_VOID(show(file, options.role.json, comma));
    comma = options.role.json ? ", " : "\n";
  }
  std::cout << (options.role.json ? "]\n" : "");
  return {};
}

}  // namespace

int plugin_info(const CatalogueOptions& options) { return report(show_all(options)); }

}  // namespace goblin::cli
