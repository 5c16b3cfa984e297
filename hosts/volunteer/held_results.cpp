// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/held_results.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace goblin::volunteer {
namespace {

class HeldSource final : public net::BlobSource {
 public:
  HeldSource(HeldOutput output, std::shared_ptr<std::atomic<net::TimePoint>> collected)
      : output_(std::move(output)), collected_(std::move(collected)) {}
  [[nodiscard]] std::uint64_t size() const override { return output_.bytes; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    const std::byte* from = output_.shared ? output_.shared->bytes().data() : output_.heap->data();
    std::memcpy(out.data(), from + output_.offset + offset, out.size());
    collected_->store(net::TimePoint::clock::now());
    return {};
  }

 private:
  HeldOutput output_;
  std::shared_ptr<std::atomic<net::TimePoint>> collected_;
};

}  // namespace

Result<std::shared_ptr<SharedBuffer>> SharedBuffer::create(std::uint64_t bytes) {
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
  net::UniqueFd fd(::memfd_create("goblin-result", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return fail(Code::kExhausted, "shared memory of " + std::to_string(size) +
                                      " bytes cannot be made: " + std::strerror(errno));
  }
  // A plugin that cut it short would end this daemon by SIGBUS when it reads.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(Code::kInternal,
                std::string("shared memory cannot be sealed: ") + std::strerror(errno));
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return fail(Code::kExhausted, "shared memory of " + std::to_string(size) +
                                      " bytes cannot be mapped: " + std::strerror(errno));
  }
  return std::shared_ptr<SharedBuffer>(
      new SharedBuffer(std::move(fd), static_cast<std::byte*>(data), size));
}

SharedBuffer::~SharedBuffer() { ::munmap(data_, size_); }

void HeldResults::hold(std::uint64_t lease, std::vector<HeldOutput> outputs, net::TimePoint now) {
  drop(lease);
  if (by_lease_.empty()) {
    collected_->store(now);
  }
  for (const auto& output : outputs) {
    bytes_ += output.bytes;
    by_digest_.emplace(output.digest, output);
  }
  order_.emplace(now, lease);
  by_lease_.emplace(lease, Held{std::move(outputs), now});
}

void HeldResults::release(std::uint64_t lease) {
  if (drop(lease)) {
    collected_->store(net::TimePoint::clock::now());
  }
}

net::TimePoint HeldResults::collected() const { return collected_->load(); }

std::optional<net::TimePoint> HeldResults::oldest() const {
  return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
}

void HeldResults::drop_oldest() {
  if (!order_.empty()) {
    const std::uint64_t lease = order_.begin()->second;
    drop(lease);
  }
}

bool HeldResults::drop(std::uint64_t lease) {
  const auto it = by_lease_.find(lease);
  if (it == by_lease_.end()) {
    return false;
  }
  for (const auto& output : it->second.outputs) {
    bytes_ -= output.bytes;
    const auto [first, last] = by_digest_.equal_range(output.digest);
    if (first != last) {
      by_digest_.erase(first);
    }
  }
  order_.erase({it->second.since, lease});
  by_lease_.erase(it);
  return true;
}

void HeldResults::clear() {
  by_lease_.clear();
  by_digest_.clear();
  order_.clear();
  bytes_ = 0;
}

Result<std::shared_ptr<net::BlobSource>> HeldResults::find(const wire::Digest& digest) const {
  const auto it = by_digest_.find(digest);
  if (it == by_digest_.end()) {
    return fail(Code::kNotFound, "no result with this digest is held");
  }
  return std::make_shared<HeldSource>(it->second, collected_);
}

}  // namespace goblin::volunteer
