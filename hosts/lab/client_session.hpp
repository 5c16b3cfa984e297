// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One connected client (Python, the goblin command): requests in, replies and events out. Over a
// Unix socket arrays travel as descriptors; over TLS they are pulled as blobs. Loop's thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <set>
#include <unordered_map>

#include "core/net/blobs.hpp"
#include "hosts/lab/engine.hpp"

namespace goblin::lab {

class ClientSession final : public std::enable_shared_from_this<ClientSession> {
 public:
  /// What GetStatus and Control answer; the daemon's own.
  struct Daemon {
    std::function<wire::StatusReport()> status;
    std::function<Result<void>(const wire::Control&)> control;
  };
  /// Events of one job follow each other at `event_pause` at least; only its end comes at once.
  ClientSession(net::Loop& loop, Engine& engine, store::Staging& staging, Daemon daemon,
                std::unique_ptr<net::Channel> channel,
                net::Milliseconds event_pause = net::Milliseconds(100));
  ~ClientSession();

  /// Runs until the connection ends. Hold a shared_ptr meanwhile.
  net::Task<void> run();
  void close() { channel_->close(); }

 private:
  net::Task<void> write_loop(std::shared_ptr<ClientSession> self);
  net::Task<void> answer(std::shared_ptr<ClientSession> self, wire::Request request,
                         std::vector<net::UniqueFd> fds);
  net::Task<void> watch(std::shared_ptr<ClientSession> self, std::uint64_t job);
  net::Task<Result<wire::ReplyBody>> reply_to(wire::RequestBody body,
                                              std::vector<net::UniqueFd>& fds,
                                              std::vector<net::UniqueFd>& out);
  net::Task<Result<wire::ReplyBody>> on(wire::Stage body, std::vector<net::UniqueFd>& out);
  net::Task<Result<wire::ReplyBody>> on(wire::Submit body, std::vector<net::UniqueFd>& fds);
  net::Task<Result<wire::ReplyBody>> on(wire::GetResult body, std::vector<net::UniqueFd>& out);
  net::Task<Result<wire::ReplyBody>> on(wire::ForgetJob body);
  [[nodiscard]] Result<void> check_places(const wire::Submit& submit, std::size_t fds) const;
  /// Makes a staging file of this client's. kExhausted when it has too many already.
  net::Task<Result<store::Staging::File>> stage_in_turn(std::uint64_t bytes);
  /// Over TLS: pulls the client's arrays into staging files.
  net::Task<Result<void>> pull_inputs(wire::Submit& submit);
  /// Numbers of a submission's staging files that are this client's; they are so no longer.
  std::vector<std::uint64_t> take_stages(const wire::Submit& submit);
  /// Over TLS: offers the staged outputs of a job that is done, and writes their digests.
  net::Task<Result<void>> offer(wire::JobStatus& status, std::vector<net::UniqueFd> fds);
  /// Offers end with their job, whoever forgot it, and when there are too many.
  void drop_offers();
  net::Task<Result<std::shared_ptr<net::BlobSource>>> find_blob(wire::Digest digest);

  net::Loop& loop_;
  Engine& engine_;
  store::Staging& staging_;
  Daemon daemon_;
  std::unique_ptr<net::Channel> channel_;
  const net::Milliseconds event_pause_;
  net::Queue<net::Frame> outgoing_;
  std::unique_ptr<net::BlobExchange> blobs_;
  std::set<std::uint64_t> stages_;  ///< made for this client
  /// Over TLS: what it may pull of a job.
  struct Offer {
    std::uint64_t job = 0;
    std::unordered_map<wire::Digest, TensorFile> outputs;
  };
  std::list<Offer> offers_;          ///< the oldest first
  std::size_t under_way_ = 0;        ///< requests
  std::set<std::uint64_t> watched_;  ///< jobs
  net::Event room_;
  bool closed_ = false;
};

}  // namespace goblin::lab
