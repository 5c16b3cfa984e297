// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/credentials.hpp"

#include <grp.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// Above every range that distributions hand out to users, services and containers.
constexpr uid_t kBase = 0x60000000;
constexpr uid_t kServicesFirst = 61184;  // systemd's DynamicUser
constexpr uid_t kServicesLast = 65519;

/// Does this user namespace know the id?
bool is_mapped(const char* map, uid_t id) {
  std::FILE* file = std::fopen(map, "re");
  if (file == nullptr) {
    return false;
  }
  bool mapped = false;
  unsigned long long inside = 0;
  unsigned long long outside = 0;
  unsigned long long count = 0;
  while (!mapped && std::fscanf(file, "%llu %llu %llu", &inside, &outside, &count) == 3) {
    mapped = id >= inside && id - inside < count;
  }
  std::fclose(file);
  return mapped;
}

bool is_usable(uid_t id) {
  return is_mapped("/proc/self/uid_map", id) && is_mapped("/proc/self/gid_map", id);
}

/// Of this process' effective capabilities.
bool has_capability(unsigned number) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  return ::syscall(SYS_capget, &header, data.data()) == 0 &&
         (data[number / 32].effective >> (number % 32) & 1) != 0;
}

}  // namespace

Result<OwnUid> choose_own_uid(pid_t spawner) {
  if (::geteuid() != 0) {
    return fail(Code::kUnavailable, "the daemon does not run as root");
  }
  if (!has_capability(CAP_SETUID) || !has_capability(CAP_SETGID)) {
    return fail(Code::kUnavailable, "the daemon's root lacks CAP_SETUID or CAP_SETGID");
  }
  const auto number = static_cast<uid_t>(spawner);
  for (const uid_t id :
       {kBase + number, kServicesFirst + number % (kServicesLast - kServicesFirst + 1)}) {
    if (is_usable(id)) {
      return OwnUid{id, id};
    }
  }
  return fail(Code::kUnavailable,
              "this container has no user id to spare: map more than 65,536 into it");
}

Result<void> drop_credentials(const std::optional<OwnUid>& own) {
  if (own) {
    const uid_t id = own->inside;
    if (::setgroups(0, nullptr) != 0) {
      return refused("setgroups");
    }
    if (::setresgid(id, id, id) != 0) {
      return refused("setresgid to " + std::to_string(id));
    }
    if (::setresuid(id, id, id) != 0) {
      return refused("setresuid to " + std::to_string(id));
    }
    if (::setresuid(0, 0, 0) == 0) {
      return fail(Code::kUnavailable, "the runner can become root again");
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) {
    return refused("capset");
  }
  return {};
}

}  // namespace goblin::jail
