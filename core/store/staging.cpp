// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One file a number, "<16 hexadecimal digits>.bin". The file "next" holds the first number that was
// never reserved; numbers are reserved a thousand at a time, so that it is written seldom.
#include "core/store/staging.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "core/store/files.hpp"

namespace goblin::store {
namespace {

constexpr const char* kNextFile = "next";
constexpr const char* kNextTemporary = "next.new";
constexpr std::uint64_t kReserve = 1000;
constexpr std::size_t kDigits = 16;
constexpr std::string_view kSuffix = ".bin";

/// A file of at most this share of the machine's memory is held in the page cache from the start.
constexpr std::uint64_t kResidentShare = 8;

std::uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : 0;
}

std::string file_name(std::uint64_t number) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%016llx.bin",
                static_cast<unsigned long long>(number));
  return buffer.data();
}

std::optional<std::uint64_t> parse_number(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::uint64_t> file_number(std::string_view name) {
  if (name.size() != kDigits + kSuffix.size() || name.substr(kDigits) != kSuffix) {
    return std::nullopt;
  }
  return parse_number(name.substr(0, kDigits), 16);
}

class DiskStaging final : public Staging {
 public:
  DiskStaging(std::string path, net::UniqueFd directory, std::uint64_t cap_bytes)
      : path_(std::move(path)), directory_(std::move(directory)), cap_bytes_(cap_bytes) {}

  Result<void> load() {
    auto listed = visit_files(directory_.get(), [this](const std::string& name) {
      const auto number = file_number(name);
      struct stat info {};
      if (number && ::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
        sizes_.emplace(*number, static_cast<std::uint64_t>(info.st_size));
        used_ += static_cast<std::uint64_t>(info.st_size);
      }
    });
    if (!listed) {
      return fail(listed.error().with_context("staging directory '" + path_ + "'"));
    }
    GOBLIN_TRY(next_, read_next());
    reserved_ = next_;
    return reserve();
  }

  Result<File> create(std::uint64_t size) override { return create_file(size, false); }

  Result<File> create_resident(std::uint64_t size) override {
    return create_file(size, size <= machine_memory() / kResidentShare);
  }

 private:
  Result<File> create_file(std::uint64_t size, bool resident) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (cap_bytes_ != 0 && (size > cap_bytes_ || used_ > cap_bytes_ - size)) {
        return fail(Code::kExhausted, "staging directory '" + path_ + "' has no room for " +
                                          bytes_text(size) + ": " + bytes_text(used_) +
                                          " of its cap of " + bytes_text(cap_bytes_) +
                                          " are used; forget ended jobs or raise the cap");
      }
      if (next_ == reserved_) {
        GOBLIN_TRY_VOID(reserve());
      }
      number = next_++;
      used_ += size;  // reserved now, so that two creations cannot both take the last room
    }
    auto fd = make_file(number, size, resident);
    const std::lock_guard lock(mutex_);
    if (!fd) {
      used_ -= size;
      return fail(fd.error().with_context("staging directory '" + path_ + "'"));
    }
    sizes_.emplace(number, size);
    return File{number, std::move(*fd), size};
  }

 public:
  Result<File> reopen(std::uint64_t number, Access access) override {
    std::uint64_t size = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(number);
      if (found == sizes_.end()) {
        return fail(no_such(number));
      }
      size = found->second;
    }
    net::UniqueFd fd(
        ::openat(directory_.get(), file_name(number).c_str(),
                 (access == Access::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) {
      return fail(disk_error("cannot open staged file '" + full_name(number) + "'", errno));
    }
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) {
      return fail(disk_error("cannot read staged file '" + full_name(number) + "'", errno));
    }
    if (static_cast<std::uint64_t>(info.st_size) != size) {
      return fail(Code::kCorrupt, "staged file '" + full_name(number) + "' has " +
                                      std::to_string(info.st_size) + " bytes instead of " +
                                      std::to_string(size) +
                                      ": somebody changed its length; submit that job again");
    }
    return File{number, std::move(fd), size};
  }

  Result<void> remove(std::uint64_t number) override {
    std::uint64_t size = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(number);
      if (found == sizes_.end()) {
        return fail(no_such(number));
      }
      size = found->second;
      sizes_.erase(found);
    }
    // Without the lock: a large file takes its time, and others must not wait for it.
    const bool removed =
        ::unlinkat(directory_.get(), file_name(number).c_str(), 0) == 0 || errno == ENOENT;
    const int error = errno;
    const std::lock_guard lock(mutex_);
    if (!removed) {
      sizes_.emplace(number, size);
      return fail(disk_error("cannot remove staged file '" + full_name(number) + "'", error));
    }
    used_ -= size;
    return {};
  }

  [[nodiscard]] Result<std::vector<std::uint64_t>> list() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> numbers;
    numbers.reserve(sizes_.size());
    for (const auto& [number, size] : sizes_) {
      numbers.push_back(number);
    }
    return numbers;
  }

  [[nodiscard]] std::uint64_t used_bytes() const override {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  [[nodiscard]] std::string full_name(std::uint64_t number) const {
    return path_ + "/" + file_name(number);
  }
  [[nodiscard]] Error no_such(std::uint64_t number) const {
    return {Code::kNotFound,
            "staging directory '" + path_ + "' has no file " + std::to_string(number)};
  }

  /// The first number that was surely never given out.
  Result<std::uint64_t> read_next() {
    const std::string what = "'" + path_ + "/" + kNextFile + "'";
    const std::string remedy =
        "; it holds the first unused number, in decimal: write one there that no job of this lab "
        "node ever used, or start with empty state";
    net::UniqueFd fd(::openat(directory_.get(), kNextFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) {
      if (errno != ENOENT) {
        return fail(disk_error("cannot open " + what, errno));
      }
      if (!sizes_.empty()) {
        return fail(Code::kCorrupt, what + " is missing although staged files are here" + remedy);
      }
      return 1;
    }
    std::array<char, 32> buffer{};
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return fail(disk_error("cannot read " + what, errno));
    }
    std::string_view text(buffer.data(), static_cast<std::size_t>(count));
    if (text.ends_with('\n')) {
      text.remove_suffix(1);
    }
    const auto number = parse_number(text, 10);
    if (!number || *number == 0 || *number > UINT64_MAX / 2) {
      return fail(Code::kCorrupt, what + " holds no number" + remedy);
    }
    if (!sizes_.empty() && *number <= sizes_.rbegin()->first) {
      return fail(Code::kCorrupt, what + " says " + std::to_string(*number) + ", but file " +
                                      std::to_string(sizes_.rbegin()->first) + " exists" + remedy);
    }
    return *number;
  }

  /// Durable before any of the numbers is used. Called with the lock held, or before any thread.
  Result<void> reserve() {
    const std::uint64_t end = reserved_ + kReserve;
    const std::string text = std::to_string(end) + "\n";
    net::UniqueFd fd(::openat(directory_.get(), kNextTemporary,
                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    const std::string what = "cannot write '" + path_ + "/" + kNextFile + "'";
    if (!fd) {
      return fail(disk_error(what, errno));
    }
    if (auto written = write_all(fd.get(), std::as_bytes(std::span(text)), 0); !written) {
      return fail(written.error().with_context(what));
    }
    if (::fsync(fd.get()) != 0 ||
        ::renameat(directory_.get(), kNextTemporary, directory_.get(), kNextFile) != 0 ||
        ::fsync(directory_.get()) != 0) {
      return fail(disk_error(what, errno));
    }
    reserved_ = end;
    return {};
  }

  Result<net::UniqueFd> make_file(std::uint64_t number, std::uint64_t size, bool resident) {
    const std::string name = file_name(number);
    net::UniqueFd fd(
        ::openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) {
      return fail(disk_error("cannot make '" + name + "'", errno));
    }
    auto allocated = allocate_blocks(fd.get(), size, false);
    Result<void> done;
    if (!allocated) {
      done = fail(allocated.error());
    } else if (!*allocated || resident) {
      done = write_zeros(fd.get(), size);
    }
    if (!done) {
      ::unlinkat(directory_.get(), name.c_str(), 0);
      return fail(done.error());
    }
    return fd;
  }

  const std::string path_;
  const net::UniqueFd directory_;
  const std::uint64_t cap_bytes_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
  std::uint64_t used_ = 0;
  std::uint64_t next_ = 1;
  std::uint64_t reserved_ = 1;
};

}  // namespace

Result<std::unique_ptr<Staging>> Staging::open(const std::string& directory,
                                               std::uint64_t cap_bytes) {
  GOBLIN_TRY(auto fd, open_owned_directory(directory, "staging directory"));
  auto staging = std::make_unique<DiskStaging>(directory, std::move(fd), cap_bytes);
  GOBLIN_TRY_VOID(staging->load());
  return staging;
}

}  // namespace goblin::store
