// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A client of a lab node: its own loop in its own thread, calls from any thread. It connects again
// by itself after the lab node has gone away.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/net/blobs.hpp"
#include "core/net/channel.hpp"
#include "core/wire/client.hpp"

namespace goblin::client {

/// A Unix socket, or a name and port over TLS.
struct Address {
  std::string socket;  ///< empty: TLS
  std::string host;
  std::uint16_t port = 0;
  wire::Digest pin;
  std::string identity;  ///< directory of the client's own key; made when missing
  [[nodiscard]] std::string text() const;
};

/// What a request came to.
struct Answer {
  Result<wire::ReplyBody> body;
  std::vector<net::UniqueFd> fds;
  bool lost = false;  ///< the connection broke before the answer: it may or may not have been done
  std::uint64_t epoch = 0;  ///< of the connection that answered
};

/// A request on its way. Any thread.
class Call {
 public:
  bool wait_for(net::Milliseconds limit);
  /// Once, after wait_for() was true.
  Answer take();
  void finish(Answer answer);
  /// Nobody waits for the answer any more: a job that it tells of is to be cancelled. False when it
  /// is here already.
  bool abandon();
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Answer> answer_;
  std::atomic<bool> abandoned_{false};
};

/// What is known of a watched job.
struct JobView {
  std::uint64_t version = 0;  ///< 0: nothing yet
  Result<wire::JobStatus> status = fail(Code::kUnavailable, "nothing is known yet");
  bool notify = false;
};

/// Bytes of the caller; `owner` keeps them alive and is released on any thread.
struct Memory {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  std::size_t size = 0;
};

/// Calls from any thread, in the process that made it. Everything that waits for the lab node while
/// it is away ends with kUnavailable after `patience`.
class Client {
 public:
  static Result<std::unique_ptr<Client>> create(Address address, net::Milliseconds patience);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The first connection: kUnavailable when nobody answers, kUnsupported for versions, ….
  std::shared_ptr<Call> connected();
  /// `repeat`: safe to send again after a lost connection; else the answer is `lost`. So it is when
  /// `epoch` is not 0 and another connection than that one has come.
  std::shared_ptr<Call> call(wire::RequestBody body, std::vector<net::UniqueFd> fds, bool repeat,
                             std::uint64_t epoch = 0);

  /// Nobody waits for the job of this submission any more: cancels it, also when the answer came a
  /// moment ago. Any thread; does not wait.
  using Token = std::array<std::uint8_t, 16>;
  void cancel_submission(const Token& token);

  /// Follows a job. wait_job answers once its version is not `seen`, or with version `seen` after
  /// `limit`.
  void watch(std::uint64_t job);
  void unwatch(std::uint64_t job);
  JobView wait_job(std::uint64_t job, std::uint64_t seen, net::Milliseconds limit);
  /// A job's end is to be told by next_ended().
  void notify_end(std::uint64_t job);
  /// Nothing after `limit`, or once closed.
  std::optional<std::uint64_t> next_ended(net::Milliseconds limit);

  /// Lets the lab node pull these bytes (TLS). Blocks for the hash.
  wire::Digest serve(Memory memory);
  void unserve(const wire::Digest& digest);
  /// Fetches a result's bytes into `memory`, from `offset` on; `received` counts them.
  std::shared_ptr<Call> pull(const wire::Digest& digest, Memory memory, std::uint64_t offset,
                             std::shared_ptr<std::atomic<std::uint64_t>> received);

  /// Ends everything that waits with kCancelled. Idempotent.
  void close();
  [[nodiscard]] bool is_closed() const { return closed_; }
  /// False after a fork: the child has no thread that would answer; it must neither use this nor
  /// destroy it, which would end the parent's connection.
  [[nodiscard]] bool same_process() const;
  [[nodiscard]] const Address& address() const { return address_; }

 private:
  struct Connection {
    Connection(net::Loop& loop, std::unique_ptr<net::Channel> c)
        : channel(std::move(c)), outgoing(loop) {}
    std::unique_ptr<net::Channel> channel;
    std::unique_ptr<net::BlobExchange> blobs;
    net::Queue<net::Frame> outgoing;
    bool closed = false;
  };
  struct Pending {
    wire::Request request;
    std::vector<net::UniqueFd> fds;
    bool repeat = false;
    bool sent = false;
    std::uint64_t epoch = 0;
    std::uint64_t watched = 0;   ///< the job, for a watch
    std::shared_ptr<Call> call;  ///< none for a watch
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  Client(Address address, net::Milliseconds patience, std::unique_ptr<net::Loop> loop,
         std::shared_ptr<const net::Identity> identity);

  net::Task<void> run();
  net::Task<Result<ConnectionPtr>> open();
  net::Task<void> receive(ConnectionPtr connection);
  net::Task<void> write(ConnectionPtr connection);
  net::Task<void> ping(ConnectionPtr connection);
  net::Task<void> fetch(ConnectionPtr connection, wire::Digest digest, std::uint64_t offset,
                        std::shared_ptr<net::BlobSink> sink, std::shared_ptr<Call> call);
  net::Task<void> expire(std::uint32_t number, std::uint64_t epoch);
  net::Task<Result<std::shared_ptr<net::BlobSource>>> find_blob(wire::Digest digest);

  void begin(Pending pending);
  /// Sends what waits for a connection, or sees to it that it does not wait for ever.
  void send(std::uint32_t number);
  void send_watch(std::uint64_t job);
  void cancel_unwanted(std::uint64_t job);
  void remember(const wire::Submit& submit, std::uint64_t job);
  void on_reply(net::Frame frame, wire::Reply reply);
  void on_connected(ConnectionPtr connection);
  void on_lost();
  [[nodiscard]] bool anybody_waits();
  [[nodiscard]] std::vector<std::uint64_t> followed();
  static void end(Pending& pending, Answer answer);
  void give_up(const Error& error);
  void update(std::uint64_t job, Result<wire::JobStatus> status);

  const Address address_;
  const net::Milliseconds patience_;
  const int process_;
  std::unique_ptr<net::Loop> loop_;
  std::shared_ptr<const net::Identity> identity_;
  std::thread thread_;

  // Loop's thread only.
  ConnectionPtr connection_;
  std::map<std::uint32_t, Pending> pending_;
  std::deque<std::pair<Token, std::uint64_t>> submitted_;  ///< the last ones, and their jobs
  std::uint32_t last_number_ = 0;
  std::uint64_t epoch_ = 0;  ///< connections so far
  std::optional<Error> trouble_;
  std::vector<std::shared_ptr<Call>> waiting_first_;
  std::unique_ptr<net::Event> wanted_;  ///< somebody waits: connect now

  std::mutex mutex_;  ///< of all below
  std::condition_variable changed_;
  std::map<std::uint64_t, JobView> jobs_;
  std::uint64_t versions_ = 0;
  std::deque<std::uint64_t> ended_;
  std::map<wire::Digest, std::pair<Memory, unsigned>> served_;
  std::atomic<bool> closed_{false};
};

}  // namespace goblin::client
