// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of core/trust on disk: public keys (byte 0: 0), secret keys (1), a verifier's directory (2:
// a state whose sum is right, 3: any bytes), and then an update from what is served.
#include <filesystem>
#include <fstream>
#include <map>

#include "core/net/sha256.hpp"
#include "core/trust/key_files.hpp"
#include "tests/core/trust/network.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

using trust::test::kNow;
using trust::test::Network;

constexpr std::string_view kStateMagic = "GBLNTRS1";

const Network& network() {
  static const Network only;
  return only;
}

void spill(const std::string& path, ByteView bytes, bool secret = false) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (secret) std::filesystem::permissions(path, std::filesystem::perms::owner_read);
}

std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void run_public_key(ByteView bytes) {
  const auto key = trust::parse_public_key(text_of(bytes), "a key");
  if (key) {
    expect(trust::public_key_text(*key) == text_of(bytes), "a key has one text");
    expect(trust::check_public_key(*key).has_value(), "a key that is read can be trusted");
  } else {
    expect(key.error().code == Code::kCorrupt || key.error().code == Code::kInvalidArgument,
           "a text that is no key is kCorrupt or kInvalidArgument");
  }
}

void run_secret_key(ByteView bytes) {
  const std::string path = scratch_directory() + "/key";
  spill(path, bytes, true);
  const auto encrypted = trust::secret_key_is_encrypted(path);
  // An empty passphrase never comes to Argon2id, which would take a third of a second.
  const auto key = trust::read_secret_key(path, "");
  expect(!(key && encrypted && *encrypted), "an encrypted key needs its passphrase");
  if (!key) {
    expect(key.error().code == Code::kCorrupt || key.error().code == Code::kInvalidArgument,
           "a file that is no key is kCorrupt or kInvalidArgument");
  }
}

void run_directory(ByteView state, bool sum) {
  const std::string path = scratch_directory() + "/trust";
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const Network& net = network();
  for (const auto& [place, file] : net.server.files) {
    spill(path + "/" + net::sha256(file).hex() + ".signed", file);
  }
  Script script;
  if (sum) {
    const wire::Digest digest = net::sha256(state);
    script.text(kStateMagic).bytes(std::as_bytes(std::span(digest.bytes)));
  }
  spill(path + "/state", script.bytes(state).take());
  const auto verifier = trust::Verifier::open({.directory = path, .root = net.first_root});
  if (!verifier) {
    expect(verifier.error().code == Code::kCorrupt ||
               verifier.error().code == Code::kInvalidArgument ||
               verifier.error().code == Code::kUnsupported,
           "a damaged directory is an error that says so");
    return;
  }
  expect((*verifier)->root().version >= 1, "a verifier that opens has a root");
  const std::uint64_t seen = (*verifier)->state().seen_targets.version;
  trust::test::Server server;
  server.files = net.server.files;
  const auto updated = (*verifier)->update(server, kNow);
  const trust::Catalogue* catalogue = (*verifier)->catalogue();
  expect(!updated || (catalogue != nullptr && catalogue->version >= seen),
         "no update goes back behind what was seen");
}

void run(ByteView input) {
  Draw draw(input);
  switch (draw.u8() % 4) {
    case 0:
      return run_public_key(draw.rest());
    case 1:
      return run_secret_key(draw.rest());
    case 2:
      return run_directory(draw.rest(), true);
    default:
      return run_directory(draw.rest(), false);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](unsigned mode, ByteView bytes) {
    all.push_back(Script().u8(mode).bytes(bytes).take());
  };
  const auto add_text = [&](unsigned mode, const std::string& text) {
    add(mode, std::as_bytes(std::span(text)));
  };
  const Network& net = network();
  add_text(0, trust::public_key_text(net.root_keys[0].public_key()));
  const std::string digits(64, '1');
  add_text(1, "goblin secret key 1\n" + digits + "\nnot encrypted\n" + digits + "\n");
  add_text(1, "goblin secret key 1\n" + digits + "\nargon2id 2 67108864 xsalsa20-poly1305\n" +
                  std::string(32, '2') + "\n" + std::string(48, '3') + "\n" + std::string(96, '4') +
                  "\n");
  // The state after an update, as a verifier writes it.
  const std::string path = scratch_directory() + "/seed";
  auto verifier = trust::Verifier::open({.directory = path, .root = net.first_root}).value();
  trust::test::Server server;
  server.files = net.server.files;
  add(2, wire::encode(verifier->state()));
  (void)verifier->update(server, kNow);
  const Bytes state = wire::encode(verifier->state());
  add(2, state);
  const std::string whole = store::test::slurp(path + "/state");
  add_text(3, whole);
  return all;
}

}  // namespace

Target trust_files_target() { return {"trust_files", run, seeds, nullptr}; }

}  // namespace goblin::fuzz
