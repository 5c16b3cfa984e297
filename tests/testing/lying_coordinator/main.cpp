// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-lying-coordinator: takes the settings of `goblin coordinator run` as --set KEY=VALUE, and
// lie.directory beside them; or `forge targets|timestamp --NAME VALUE…` (forge.hpp).
#include <csignal>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "hosts/coordinator/coordinator.hpp"
#include "tests/testing/lying_coordinator/forge.hpp"
#include "tests/testing/lying_coordinator/raw_catalogue.hpp"

namespace {

int fail_with(const std::string& message) {
  std::cerr << "goblin-lying-coordinator: " << message << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
  std::map<std::string, std::string> settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      words.push_back(word);
      continue;
    }
    if (i + 1 >= argc) {
      return fail_with("a value is missing after " + word);
    }
    const std::string value = argv[++i];
    const auto equals = value.find('=');
    if (word == "--set" && equals != std::string::npos) {
      settings[value.substr(0, equals)] = value.substr(equals + 1);
    } else {
      options[word.substr(2)] = value;
    }
  }
  if (words.size() == 2 && words[0] == "forge") {
    const auto forged = goblin::testing::forge(words[1], options);
    return forged ? 0 : fail_with(forged.error().message);
  }
  settings["state-dir"] = options["state-dir"];
  auto reader = goblin::hosts::ConfigReader::open("", settings);
  if (!reader) {
    return fail_with(reader.error().message);
  }
  const std::string directory = reader->string("lie.directory", "");
  auto config = goblin::coordinator::read_config(*reader);
  if (!config) {
    return fail_with(config.error().message);
  }
  config->ready_fd = options.contains("ready-fd") ? std::stoi(options["ready-fd"]) : -1;
  config->open_catalogue = [&directory](const goblin::coordinator::PublisherSettings&)
      -> goblin::Result<std::unique_ptr<goblin::coordinator::CatalogueSource>> {
    return std::make_unique<goblin::testing::RawCatalogue>(directory);
  };
  const auto done = goblin::coordinator::run_coordinator(*config);
  return done ? 0 : fail_with(done.error().message);
}
