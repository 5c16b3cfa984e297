// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-fuzz --target=NAME [libFuzzer's options] [CORPUS…]: libFuzzer over one target.
// goblin-fuzz --list: their names. goblin-fuzz --target=NAME --seeds=DIR: writes its seeds there.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "tests/fuzz/target.hpp"

// Names and signatures are libFuzzer's.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t capacity);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t capacity, unsigned int seed);

namespace {

using goblin::fuzz::Target;

Target& chosen() {
  static Target target{};
  return target;
}

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "goblin-fuzz: %s\n", why.c_str());
  std::exit(2);
}

void write_seeds(const std::string& directory) {
  int number = 0;
  for (const goblin::fuzz::Bytes& seed : chosen().seeds()) {
    const std::string path = directory + "/seed-" + std::to_string(number++);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(seed.data()),
              static_cast<std::streamsize>(seed.size()));
    if (!out.flush()) stop("cannot write " + path);
  }
}

}  // namespace

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::optional<std::string> seeds;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--list") {
      for (const Target& target : goblin::fuzz::all_targets()) std::puts(target.name);
      std::exit(0);
    }
    if (argument.starts_with("--target=")) {
      for (const Target& target : goblin::fuzz::all_targets()) {
        if (argument.substr(9) == target.name) chosen() = target;
      }
    }
    if (argument.starts_with("--seeds=")) seeds = argument.substr(8);
  }
  if (chosen().run == nullptr) {
    stop("name one of the targets that --list prints, as --target=NAME");
  }
  if (seeds) {
    write_seeds(*seeds);
    std::exit(0);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().run(std::as_bytes(std::span(data, size)));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t capacity,
                                    unsigned int seed) {
  const std::uint64_t random = (std::uint64_t{seed} + 1) * 0x9e3779b97f4a7c15ULL;
  if (chosen().mutate == nullptr || (random >> 63) != 0) {
    return LLVMFuzzerMutate(data, size, capacity);
  }
  return chosen().mutate(data, size, capacity, random);
}
