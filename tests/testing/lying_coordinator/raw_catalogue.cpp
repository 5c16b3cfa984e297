// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lying_coordinator/raw_catalogue.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace goblin::testing {
namespace {

/// A file of any length, holes too.
class FileSource final : public net::BlobSource {
 public:
  explicit FileSource(std::string path)
      : path_(std::move(path)), size_(std::filesystem::file_size(path_)) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    std::ifstream in(path_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset));
    in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    return in ? Result<void>{} : fail(Code::kCorrupt, "the file became shorter");
  }

 private:
  std::string path_;
  std::uint64_t size_;
};

}  // namespace

Result<wire::Bytes> RawCatalogue::metadata(wire::ServedFile file, std::uint64_t version) {
  const std::string path = directory_ + (file == wire::ServedFile::kTimestamp
                                             ? "/timestamp.signed"
                                             : "/root-" + std::to_string(version) + ".signed");
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Code::kNotFound, "none");
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return wire::Bytes(bytes.begin(), bytes.end());
}

Result<std::shared_ptr<net::BlobSource>> RawCatalogue::blob(const wire::Digest& digest) {
  const std::string path = directory_ + "/blobs/" + digest.hex();
  if (!std::filesystem::exists(path)) {
    return fail(Code::kNotFound, "none");
  }
  return std::make_shared<FileSource>(path);
}

}  // namespace goblin::testing
