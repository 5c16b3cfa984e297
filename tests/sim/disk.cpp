// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/disk.hpp"

#include <algorithm>
#include <cstring>

namespace goblin::sim {
namespace {

/// Unsynced writes are torn at multiples of this.
constexpr std::size_t kSector = 512;

}  // namespace

void Disk::apply(std::string& bytes, const Write& write) {
  if (write.truncate) {
    bytes.resize(write.offset);
    return;
  }
  if (bytes.size() < write.offset + write.bytes.size())
    bytes.resize(write.offset + write.bytes.size());
  std::memcpy(bytes.data() + write.offset, write.bytes.data(), write.bytes.size());
}

bool Disk::fails(double p) {
  if (!random_.chance(p)) return false;
  ++injected_;
  return true;
}

bool Disk::stops() {
  ++operations_;
  if (stop_in_ == 0 || --stop_in_ > 0) return false;
  frozen_ = true;
  return true;
}

bool Disk::exists(const std::string& name) const {
  const auto it = files_.find(name);
  return it != files_.end() && !it->second.removed;
}

void Disk::create(const std::string& name) {
  if (frozen_) return;
  File& file = files_[name];
  if (!file.removed) return;
  file.removed = false;
  file.now.clear();
  file.pending.push_back({0, {}, true});
}

Disk::Status Disk::remove(const std::string& name, bool at_once) {
  if (frozen_ || stops() || fails(faults_.write)) return Status::kFailed;
  const auto it = files_.find(name);
  if (it == files_.end()) return Status::kOk;
  it->second.removed = true;
  if (at_once) sync_folder();
  return Status::kOk;
}

Disk::Status Disk::read(const std::string& name, std::uint64_t offset, char* out, std::size_t size,
                        std::size_t& got) {
  got = 0;
  if (frozen_ || fails(faults_.read)) return Status::kFailed;
  const auto it = files_.find(name);
  if (it == files_.end() || offset >= it->second.now.size()) return Status::kOk;
  got = std::min<std::size_t>(size, it->second.now.size() - offset);
  std::memcpy(out, it->second.now.data() + offset, got);
  return Status::kOk;
}

Disk::Status Disk::write(const std::string& name, std::uint64_t offset, std::string_view bytes) {
  if (frozen_) return Status::kFailed;
  File& file = files_[name];
  Write write{offset, std::string(bytes)};
  if (stops()) {
    write.bytes.resize(random_.below(bytes.size() + 1));
    apply(file.now, write);
    file.pending.push_back(std::move(write));
    return Status::kFailed;
  }
  if (offset + bytes.size() > file.now.size() && fails(faults_.full)) return Status::kFull;
  if (fails(faults_.write)) {
    // Some of it may have been written.
    write.bytes.resize(random_.below(bytes.size() + 1));
    apply(file.now, write);
    file.pending.push_back(std::move(write));
    return Status::kFailed;
  }
  apply(file.now, write);
  file.pending.push_back(std::move(write));
  return Status::kOk;
}

Disk::Status Disk::truncate(const std::string& name, std::uint64_t size) {
  if (frozen_ || stops() || fails(faults_.write)) return Status::kFailed;
  File& file = files_[name];
  Write write{size, {}, true};
  apply(file.now, write);
  file.pending.push_back(std::move(write));
  return Status::kOk;
}

Disk::Status Disk::sync(const std::string& name, bool folder_too) {
  if (frozen_ || stops()) return Status::kFailed;
  File& file = files_[name];
  if (fails(faults_.sync)) {
    if (faults_.sync_forgets) file.pending.clear();
    return Status::kFailed;
  }
  for (const Write& write : file.pending) apply(file.kept, write);
  file.pending.clear();
  file.kept_exists = true;
  if (folder_too) sync_folder();
  return Status::kOk;
}

void Disk::sync_folder() {
  std::erase_if(files_, [](const auto& file) { return file.second.removed; });
  for (auto& [name, file] : files_) file.kept_exists = true;
}

std::uint64_t Disk::size(const std::string& name) const {
  const auto it = files_.find(name);
  return it == files_.end() ? 0 : it->second.now.size();
}

void Disk::restart(bool power_lost) {
  // Often all or nothing of the rest survives: the extremes find more than mixtures.
  const std::uint64_t mode = random_.below(4);
  for (auto it = files_.begin(); it != files_.end();) {
    File& file = it->second;
    if (!power_lost) {
      if (file.removed) {
        it = files_.erase(it);
        continue;
      }
      file.kept = file.now;
      file.pending.clear();
      file.kept_exists = true;
      ++it;
      continue;
    }
    if (file.removed && random_.chance(0.5)) {
      it = files_.erase(it);
      continue;
    }
    if (!file.kept_exists && !file.removed && random_.chance(0.5)) {
      it = files_.erase(it);  // its name had not reached the disk
      continue;
    }
    for (Write& write : file.pending) {
      const std::uint64_t fate = mode == 0 ? 0 : mode == 1 ? 1 : random_.below(3);
      if (fate == 0) continue;
      if (fate == 2 && !write.truncate && write.bytes.size() > kSector) {
        // Some of its sectors, one after another.
        const std::uint64_t sectors = (write.bytes.size() + kSector - 1) / kSector;
        const std::uint64_t from = random_.below(sectors) * kSector;
        const std::uint64_t size = (1 + random_.below(sectors)) * kSector;
        write.bytes = write.bytes.substr(from, size);
        write.offset += from;
      }
      apply(file.kept, write);
    }
    file.pending.clear();
    file.now = file.kept;
    file.kept_exists = true;
    file.removed = false;
    ++it;
  }
  frozen_ = false;
  stop_in_ = 0;
  injected_ = 0;
}

}  // namespace goblin::sim
