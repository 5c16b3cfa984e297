// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A verifier's directory: signed files by digest, and `state`, which names those in force. Internal
// to core/trust. One thread at a time.
//
// A change writes new files under names of their own, then replaces `state` by one rename. So after
// a crash or a loss of power at any point the directory is the old one or the new one, whole.
#pragma once

#include <string>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "core/wire/trust.hpp"

namespace goblin::trust {

class TrustDirectory final {
 public:
  /// Made when missing (0700), locked for this object. As store::open_owned_directory.
  static Result<TrustDirectory> open(const std::string& path);

  /// What was committed last; a state of no roots when nothing was. kCorrupt: damaged.
  [[nodiscard]] Result<wire::TrustState> load() const;
  /// A file that the state names. kNotFound; kCorrupt: not of that length and digest.
  [[nodiscard]] Result<wire::Bytes> read(const wire::TrustFile& file) const;

  /// Writes `files`, then `state`, then removes what `state` does not name. When it fails, the old
  /// state may be in force or the new one.
  Result<void> commit(const wire::TrustState& state, const std::vector<wire::ByteView>& files);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  TrustDirectory(std::string path, net::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  void remove_unnamed(const wire::TrustState& state) const;

  std::string path_;
  net::UniqueFd fd_;
};

}  // namespace goblin::trust
