// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A cache's directory as somebody left it: names, lengths and contents from the input, then finds,
// downloads and evictions. Only the right bytes ever come out, and the cap holds.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/net/blob_hash.hpp"
#include "core/store/blob_cache.hpp"
#include "core/store/staging.hpp"
#include "tests/core/store/support.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

constexpr std::uint64_t kCap = 4000;
constexpr std::size_t kBlobs = 6;

struct Blob {
  Bytes bytes;
  wire::Digest digest;
};
const Blob& blob(std::uint64_t number) {
  static const std::vector<Blob> blobs = [] {
    std::vector<Blob> all;
    for (std::uint64_t i = 0; i < kBlobs; ++i) {
      Bytes bytes = store::test::random_bytes(100 + 250 * i, i);
      const wire::Digest digest = net::blob_digest(bytes);
      all.push_back({std::move(bytes), digest});
    }
    return all;
  }();
  return blobs[number % kBlobs];
}
const Bytes& contents_of(std::uint64_t number) { return blob(number).bytes; }
const wire::Digest& digest_of(std::uint64_t number) { return blob(number).digest; }

std::string name_of(Draw& draw) {
  const std::uint8_t kind = draw.u8();
  const std::uint64_t number = draw.below(kBlobs);
  const std::string hex = digest_of(number).hex();
  std::string size = std::to_string(contents_of(number).size());
  switch (kind % 8) {
    case 0:
      size = std::to_string(draw.u64());
      break;
    case 1:
      return draw.text(draw.u8() % 100);
    case 2:
      return "0000000000000001.bin";
    case 3:
      return "next";
    case 4:
      size = "0" + size;
      break;
    default:
      break;
  }
  return hex + "-" + size + ((kind & 64) != 0 ? ".part" : ".blob");
}

void make_file(const std::string& directory, Draw& draw) {
  std::string name = name_of(draw);
  // What no file is called would be another test of the file system.
  std::erase_if(name, [](char c) { return c == '/' || c == '\0'; });
  if (name.empty() || name == "." || name == "..") return;
  const std::uint8_t kind = draw.u8();
  const std::string path = directory + "/" + name;
  std::error_code ignored;
  if (kind % 8 == 0) {
    std::filesystem::create_symlink("/etc/hostname", path, ignored);
    return;
  }
  if (kind % 8 == 1) {
    std::filesystem::create_directory(path, ignored);
    return;
  }
  Bytes bytes = contents_of(draw.below(kBlobs));
  if (kind % 8 == 2) bytes.resize(draw.below(2000));
  if (kind % 8 == 3) {
    const ByteView own = draw.bytes(draw.u8());
    bytes.assign(own.begin(), own.end());
  }
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void check_found(const store::BlobCache::Pin& pin, std::uint64_t number) {
  Bytes bytes(pin.size());
  expect(::pread(pin.fd(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
             bytes == contents_of(number),
         "only the right bytes come out of the cache");
}

void use(store::BlobCache& cache, Draw& draw) {
  const std::uint64_t number = draw.below(kBlobs);
  if (draw.yes()) {
    const auto found = cache.find(digest_of(number));
    if (found) check_found(**found, number);
    return;
  }
  auto download = cache.download(digest_of(number));
  if (!download) {
    return;
  }
  Bytes bytes = contents_of(number);
  const std::uint64_t start = (*download)->offset();
  const bool begun =
      (*download)->sink()->begin(draw.u8() == 0 ? draw.u64() : bytes.size()).has_value();
  if (begun && start <= bytes.size()) {
    const std::size_t count = draw.u8() == 0 ? draw.below(bytes.size()) : bytes.size() - start;
    if (draw.u8() == 0) bytes[start % bytes.size()] ^= std::byte{1};
    (void)(*download)->sink()->write(
        start, ByteView(bytes).subspan(start, std::min<std::size_t>(count, bytes.size() - start)));
  }
  const auto pin = (*download)->commit();
  if (pin) check_found(**pin, number);
}

void run(ByteView input) {
  Draw draw(input);
  const std::string path = scratch_directory() + "/blobs";
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  for (std::uint64_t files = draw.below(8); files > 0; --files) {
    make_file(path, draw);
  }
  {
    const auto cache =
        store::BlobCache::open(path, store::NamedBy::kBlake3, kCap, [](const wire::Digest&) {});
    expect(cache.has_value(), "a cache opens whatever lies in its directory");
    expect((*cache)->used_bytes() <= kCap, "the cap holds from the start");
    for (int steps = 0; steps < 12 && !draw.empty(); ++steps) {
      use(**cache, draw);
      expect((*cache)->used_bytes() <= kCap, "the cap holds");
    }
    const auto mended = (*cache)->mend();
    expect(mended.has_value(), "a directory that is there needs no mending");
  }
  const auto staging = store::Staging::open(path, 1 << 20);
  if (!staging) {
    expect(staging.error().code == Code::kCorrupt || staging.error().code == Code::kUnavailable,
           "a note of numbers that is lost is kCorrupt");
    return;
  }
  const auto made = (*staging)->create(100);
  if (!made) {
    // Something that is no file bears the number's name.
    expect(made.error().code == Code::kUnavailable, "what stands in the way is an error");
    return;
  }
  const auto numbers = (*staging)->list();
  expect(numbers && !numbers->empty() && numbers->back() == made->number,
         "a number is never used twice");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::uint64_t blob = 0; blob < kBlobs; ++blob) {
    Script script;
    script.u32(3);
    for (const unsigned kind : {7u, 71u, 5u}) {
      script.u8(kind).u32(blob).u8(7).u32(kind == 5 ? blob + 1 : blob);
    }
    for (std::uint64_t step = 0; step < 6; ++step) {
      script.u32(step).u8(step).u8(1).u8(1).u8(1);
    }
    all.push_back(script.take());
  }
  all.push_back(
      Script().u32(2).u8(3).u32(0).u8(3).u8(3).text("42\n").u8(2).u32(0).u8(7).u32(1).take());
  return all;
}

}  // namespace

Target blobs_target() { return {"blobs", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
