// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/publisher.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/net/sha256.hpp"
#include "core/trust/key_files.hpp"
#include "core/trust/publish.hpp"

namespace goblin::coordinator {
namespace {

namespace fs = std::filesystem;

class BytesSource final : public net::BlobSource {
 public:
  explicit BytesSource(wire::Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  wire::Bytes bytes_;
};

/// The coordinator's own key: made when there is none.
Result<trust::SecretKey> load_key(const std::string& path, trust::Durable durable) {
  std::error_code error;
  if (fs::exists(path, error)) {
    auto key = trust::read_secret_key(path, "");
    if (!key) {
      return fail(key.error().with_context("the timestamp's key"));
    }
    return key;
  }
  trust::SecretKey key = trust::SecretKey::make();
  GOBLIN_TRY_VOID(trust::write_secret_key(path, key, "", durable));
  return key;
}

std::string kinds_text(const wire::TrustPlugin& plugin) {
  std::string text;
  for (const auto& kind : plugin.kinds) {
    text += (text.empty() ? "" : " ") + kind.name + "/" + std::to_string(kind.version);
  }
  return text;
}

}  // namespace

PublisherSettings publisher_settings(const std::string& state_dir) {
  PublisherSettings settings;
  settings.directory = state_dir + "/catalogue";
  settings.key_file = state_dir + "/timestamp.secret";
  return settings;
}

Publisher::Publisher(const PublisherSettings& settings, trust::SecretKey key)
    : settings_(settings),
      key_(std::move(key)),
      repository_(settings.directory, settings.durable),
      plugins_(settings.directory + "/plugins", settings.durable) {}

Result<std::unique_ptr<Publisher>> Publisher::open(const PublisherSettings& settings) {
  std::error_code error;
  fs::create_directories(settings.directory + "/plugins", error);
  if (error) {
    return fail(Code::kUnavailable,
                "'" + settings.directory + "/plugins' cannot be made: " + error.message());
  }
  GOBLIN_TRY(trust::SecretKey key, load_key(settings.key_file, settings.durable));
  const std::string public_file =
      settings.key_file.substr(0, settings.key_file.rfind('.')) + ".public";
  if (!fs::exists(public_file, error)) {
    GOBLIN_TRY_VOID(trust::write_public_key(public_file, key.public_key(), settings.durable));
  }
  return std::unique_ptr<Publisher>(new Publisher(settings, std::move(key)));
}

Result<void> Publisher::renew(Served& served, std::uint64_t now_s) {
  const wire::TrustFile named =
      trust::file_of(served.release.targets.version, served.release.targets_file);
  const auto last = repository_.judged_timestamp();
  const bool fresh = last && last->targets == named && last->issued_s <= now_s &&
                     now_s < last->issued_s + settings_.renew_every_s && now_s < last->expires_s;
  if (!fresh) {
    const auto& keys = served.release.root.timestamp.keys;
    if (std::find(keys.begin(), keys.end(), key_.public_key()) == keys.end()) {
      return fail(Code::kInvalidArgument,
                  "this coordinator's key " + key_.id().hex() +
                      " is no timestamp key of root version " +
                      std::to_string(served.release.root.version) +
                      ": publish a root that lists it (its public key lies beside '" +
                      settings_.key_file + "'), or bring the key that is listed");
    }
    const auto published = repository_.newest_timestamp();
    const std::uint64_t version = published ? published->version + 1 : 1;
    GOBLIN_TRY(const wire::Bytes bare,
               trust::make_timestamp_file(version, now_s, now_s + settings_.lifetime_s,
                                          served.release.targets_file));
    GOBLIN_TRY(const wire::Bytes file, trust::sign(bare, key_, &served.release.root));
    GOBLIN_TRY_VOID(repository_.put(file));
  }
  GOBLIN_TRY(served.timestamp, repository_.judged_timestamp());
  GOBLIN_TRY(served.timestamp_file,
             repository_.get(trust::MetadataRole::kTimestamp, 0,
                             trust::max_file_bytes(trust::MetadataRole::kTimestamp)));
  return {};
}

Result<Publisher::Served> Publisher::build(std::uint64_t version, std::uint64_t now_s) {
  Served served;
  GOBLIN_TRY(served.release, repository_.release(version, now_s));
  for (const auto& plugin : served.release.targets.plugins) {
    GOBLIN_TRY_VOID(plugins_.check(plugin));
  }
  served.targets = net::sha256(served.release.targets_file);
  for (std::uint64_t root = 1; root <= served.release.root.version; ++root) {
    GOBLIN_TRY(served.roots[root],
               repository_.get(trust::MetadataRole::kRoot, root,
                               trust::max_file_bytes(trust::MetadataRole::kRoot)));
  }
  GOBLIN_TRY_VOID(renew(served, now_s));
  return served;
}

Result<bool> Publisher::refresh(std::uint64_t now_s) {
  const std::uint64_t before = served_ ? served_->timestamp.version : 0;
  auto next = build(0, now_s);
  if (!next) {
    trouble_ = next.error().message;
    // Hosts go on with what they have: its timestamp must not run out meanwhile.
    const auto last = repository_.newest_timestamp();
    if (auto older = last ? build(last->targets.version, now_s) : fail(last.error()); older) {
      served_ = std::move(*older);
    }
    return fail(std::move(next).error());
  }
  trouble_.clear();
  served_ = std::move(*next);
  return served_->timestamp.version != before;
}

Result<wire::Bytes> Publisher::metadata(wire::ServedFile file, std::uint64_t version) {
  if (served_ && file == wire::ServedFile::kTimestamp && version == 0) {
    return served_->timestamp_file;
  }
  if (served_ && file == wire::ServedFile::kRoot) {
    if (const auto it = served_->roots.find(version); it != served_->roots.end()) {
      return it->second;
    }
  }
  return fail(Code::kNotFound, "nothing of that version is published");
}

Result<std::shared_ptr<net::BlobSource>> Publisher::blob(const wire::Digest& digest) {
  if (served_ && served_->targets == digest) {
    return std::make_shared<BytesSource>(served_->release.targets_file);
  }
  if (served_) {
    const auto& plugins = served_->release.targets.plugins;
    const auto it = std::find_if(plugins.begin(), plugins.end(),
                                 [&](const auto& plugin) { return plugin.plugin == digest; });
    if (it != plugins.end()) {
      return plugins_.open(*it);
    }
  }
  return fail(Code::kNotFound, "the catalogue has no such plugin");
}

std::vector<std::pair<std::string, std::string>> Publisher::report() const {
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back(
      "catalogue", served_ ? "version " + std::to_string(served_->release.targets.version) +
                                 " of root version " + std::to_string(served_->release.root.version)
                           : "none");
  if (served_) {
    lines.emplace_back("timestamp", "version " + std::to_string(served_->timestamp.version) +
                                        ", expires " +
                                        trust::time_text(served_->timestamp.expires_s));
    lines.emplace_back("targets expire", trust::time_text(served_->release.targets.expires_s));
    lines.emplace_back("root expires", trust::time_text(served_->release.root.expires_s));
    for (const auto& plugin : served_->release.targets.plugins) {
      lines.emplace_back("plugin " + plugin.plugin.hex().substr(0, 16),
                         plugin.name + ": " + kinds_text(plugin));
    }
  }
  if (!trouble_.empty()) {
    lines.emplace_back("catalogue trouble", trouble_);
  }
  return lines;
}

}  // namespace goblin::coordinator
