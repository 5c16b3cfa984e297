// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "client.hpp"

#include <unistd.h>

#include <cstring>
#include <random>

#include "core/net/sha256.hpp"

namespace goblin::client {
namespace {

constexpr net::Milliseconds kPingPause{15'000};
constexpr net::Milliseconds kIdleLimit{50'000};
constexpr net::Milliseconds kFirstPause{50};
constexpr net::Milliseconds kLastPause{2'000};

bool has_ended(const Result<wire::JobStatus>& status) {
  return !status || status->state == wire::JobState::kDone ||
         status->state == wire::JobState::kFailed || status->state == wire::JobState::kCancelled;
}

class MemorySource final : public net::BlobSource {
 public:
  explicit MemorySource(Memory memory) : memory_(std::move(memory)) {}
  std::uint64_t size() const override { return memory_.size; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), memory_.data + offset, out.size());
    return {};
  }

 private:
  Memory memory_;
};

class MemorySink final : public net::BlobSink {
 public:
  MemorySink(Memory memory, std::shared_ptr<std::atomic<std::uint64_t>> received)
      : memory_(std::move(memory)), received_(std::move(received)) {}
  Result<void> begin(std::uint64_t size) override {
    if (size != memory_.size) {
      return fail(Code::kCorrupt, "the lab node offers " + std::to_string(size) + " bytes where " +
                                      std::to_string(memory_.size) + " are expected");
    }
    return {};
  }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    if (offset > memory_.size || bytes.size() > memory_.size - offset) {
      return fail(Code::kCorrupt, "the lab node sends more bytes than it said");
    }
    std::memcpy(memory_.data + offset, bytes.data(), bytes.size());
    *received_ = offset + bytes.size();
    return {};
  }

 private:
  Memory memory_;
  std::shared_ptr<std::atomic<std::uint64_t>> received_;
};

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

std::string Address::text() const {
  return socket.empty() ? host + ":" + std::to_string(port) : "'" + socket + "'";
}

bool Call::wait_for(net::Milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return answer_.has_value(); });
}

Answer Call::take() {
  const std::lock_guard lock(mutex_);
  return std::move(*answer_);
}

void Call::finish(Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    answer_.emplace(std::move(answer));
  }
  changed_.notify_all();
}

Result<std::unique_ptr<Client>> Client::create(Address address, net::Milliseconds patience) {
  std::shared_ptr<const net::Identity> identity;
  if (address.socket.empty()) {
    auto loaded = net::Identity::load_or_create(address.identity);
    if (!loaded) {
      return fail(loaded.error().with_context("this client's own key"));
    }
    identity = std::move(*loaded);
  }
  GOBLIN_TRY(std::unique_ptr<net::Loop> loop, net::Loop::create(1));
  return std::unique_ptr<Client>(
      new Client(std::move(address), patience, std::move(loop), std::move(identity)));
}

Client::Client(Address address, net::Milliseconds patience, std::unique_ptr<net::Loop> loop,
               std::shared_ptr<const net::Identity> identity)
    : address_(std::move(address)),
      patience_(patience),
      process_(::getpid()),
      loop_(std::move(loop)),
      identity_(std::move(identity)),
      wanted_(std::make_unique<net::Event>(*loop_)) {
  loop_->spawn(run());
  thread_ = std::thread([this] { loop_->run(); });
}

Client::~Client() { close(); }

void Client::close() {
  if (closed_.exchange(true)) {
    return;
  }
  loop_->stop();
  if (thread_.joinable()) {
    thread_.join();
  }
  give_up({Code::kCancelled, "the connection to the lab node was closed here"});
  changed_.notify_all();
}

bool Client::same_process() const { return ::getpid() == process_; }

// ---- connections ----

net::Task<Result<Client::ConnectionPtr>> Client::open() {
  Result<std::unique_ptr<net::Channel>> channel = fail(Code::kInternal, "");
  if (address_.socket.empty()) {
    channel =
        co_await net::connect_tls(*loop_, identity_, address_.host, address_.port, address_.pin);
  } else {
    channel = co_await net::connect_unix(*loop_, address_.socket);
  }
  if (!channel) {
    co_return fail(std::move(channel).error());
  }
  auto welcome = co_await net::greet_server(*loop_, **channel, wire::Role::kClient);
  if (!welcome) {
    co_return fail(std::move(welcome).error());
  }
  net::ChannelLimits limits;
  limits.idle = address_.socket.empty() ? kIdleLimit : net::Milliseconds(0);
  (*channel)->set_limits(limits);
  auto connection = std::make_shared<Connection>(*loop_, std::move(*channel));
  connection->blobs =
      net::BlobExchange::create(*loop_, *connection->channel,
                                [this](const wire::Digest& digest) { return find_blob(digest); });
  co_return connection;
}

net::Task<void> Client::run() {
  net::Backoff backoff(random_seed(), kFirstPause, kLastPause);
  while (true) {
    auto opened = co_await open();
    if (opened) {
      backoff.reset();
      on_connected(*opened);
      co_await receive(std::move(*opened));
      on_lost();
    } else {
      trouble_ = std::move(opened).error();
      const bool hopeless = trouble_->code != Code::kUnavailable;
      for (const auto& call : std::exchange(waiting_first_, {})) {
        call->finish({fail(*trouble_), {}, false, 0});
      }
      if (hopeless) {
        give_up(*trouble_);
      }
    }
    co_await loop_->sleep(backoff.next());
    while (!anybody_waits()) {
      wanted_->reset();
      co_await wanted_->wait();
    }
  }
}

void Client::on_connected(ConnectionPtr connection) {
  connection_ = std::move(connection);
  ++epoch_;
  trouble_.reset();
  loop_->spawn(write(connection_));
  if (address_.socket.empty()) {
    loop_->spawn(ping(connection_));
  }
  for (const auto& call : std::exchange(waiting_first_, {})) {
    call->finish({wire::ReplyBody(wire::Ok{}), {}, false, epoch_});
  }
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, pending] : pending_) {
    numbers.push_back(number);
  }
  for (const auto number : numbers) {
    send(number);
  }
}

net::Task<void> Client::receive(ConnectionPtr connection) {
  while (true) {
    auto frame = co_await connection->channel->receive();
    if (!frame || frame->type == wire::FrameType::kGoodbye) {
      break;
    }
    if (frame->type == wire::FrameType::kReply) {
      auto reply = wire::decode_reply(frame->message);
      if (!reply) {
        break;
      }
      on_reply(std::move(*frame), std::move(*reply));
    } else if (frame->type == wire::FrameType::kEvent) {
      auto event = wire::decode_event(frame->message);
      if (!event) {
        break;
      }
      const std::uint64_t job = event->status.job;
      update(job, std::move(event->status));
    } else if (!connection->blobs->handle(std::move(*frame))) {
      break;
    }
  }
  connection->closed = true;
  connection->channel->close();
  connection->outgoing.close();
  connection->blobs->shut_down();
}

net::Task<void> Client::write(ConnectionPtr connection) {
  while (auto frame = co_await connection->outgoing.pop()) {
    if (const auto done = co_await connection->channel->send(std::move(*frame)); !done) {
      connection->channel->close();
      co_return;
    }
  }
}

net::Task<void> Client::ping(ConnectionPtr connection) {
  while (!connection->closed) {
    connection->outgoing.push(net::Frame(wire::FrameType::kPing));
    co_await loop_->sleep(kPingPause);
  }
}

void Client::on_lost() {
  connection_.reset();
  std::vector<std::uint32_t> waiting;
  for (auto it = pending_.begin(); it != pending_.end();) {
    Pending& pending = it->second;
    if (pending.sent && !pending.repeat) {
      end(pending, {fail(Code::kUnavailable,
                         "the connection to the lab node at " + address_.text() + " broke"),
                    {},
                    true,
                    epoch_});
      it = pending_.erase(it);
      continue;
    }
    pending.sent = false;
    waiting.push_back(it->first);
    ++it;
  }
  for (const auto number : waiting) {
    send(number);
  }
  for (const auto job : followed()) {
    send_watch(job);
  }
}

bool Client::anybody_waits() { return !pending_.empty() || !waiting_first_.empty(); }

void Client::give_up(const Error& error) {
  for (auto& [number, pending] : std::exchange(pending_, {})) {
    if (pending.watched != 0) {
      update(pending.watched, fail(error));
    } else {
      pending.call->finish({fail(error), {}, false, epoch_});
    }
  }
  for (const auto& call : std::exchange(waiting_first_, {})) {
    call->finish({fail(error), {}, false, epoch_});
  }
  if (closed_) {
    for (const auto job : followed()) {
      update(job, fail(error));
    }
  }
}

net::Task<void> Client::expire(std::uint32_t number, std::uint64_t epoch) {
  co_await loop_->sleep(patience_);
  const auto it = pending_.find(number);
  if (it == pending_.end() || epoch != epoch_ || connection_) {
    co_return;
  }
  Pending pending = std::move(it->second);
  pending_.erase(it);
  const std::string seconds = std::to_string(patience_.count() / 1000);
  Error error{Code::kUnavailable, "the lab node at " + address_.text() + " has been away for " +
                                      seconds + " s" +
                                      (trouble_ ? " (" + trouble_->message + ")" : "") +
                                      "; jobs are in its journal and go on once it runs again"};
  if (pending.watched != 0) {
    update(pending.watched, fail(std::move(error)));
  } else {
    pending.call->finish({fail(std::move(error)), {}, false, epoch_});
  }
}

// ---- requests ----

std::shared_ptr<Call> Client::connected() {
  auto call = std::make_shared<Call>();
  loop_->post([this, call] {
    if (connection_) {
      call->finish({wire::ReplyBody(wire::Ok{}), {}, false, epoch_});
    } else if (trouble_ && epoch_ == 0) {
      call->finish({fail(*trouble_), {}, false, 0});
    } else {
      waiting_first_.push_back(call);
      wanted_->set();
    }
  });
  return call;
}

std::shared_ptr<Call> Client::call(wire::RequestBody body, std::vector<net::UniqueFd> fds,
                                   bool repeat, std::uint64_t epoch) {
  auto call = std::make_shared<Call>();
  auto pending = std::make_shared<Pending>();  // std::function copies what it holds
  pending->request.body = std::move(body);
  pending->fds = std::move(fds);
  pending->repeat = repeat;
  pending->epoch = epoch;
  pending->call = call;
  loop_->post([this, pending] { begin(std::move(*pending)); });
  return call;
}

void Client::begin(Pending pending) {
  const std::uint32_t number = ++last_number_;
  pending.request.number = number;
  pending_.insert_or_assign(number, std::move(pending));
  send(number);
}

void Client::send(std::uint32_t number) {
  const auto it = pending_.find(number);
  Pending& pending = it->second;
  if (!connection_) {
    loop_->spawn(expire(number, epoch_));
    wanted_->set();
    return;
  }
  if (pending.epoch != 0 && pending.epoch != epoch_) {
    end(pending, {fail(Code::kUnavailable, "the lab node was started again"), {}, true, epoch_});
    pending_.erase(it);
    return;
  }
  net::Frame frame = net::make_frame(wire::FrameType::kRequest, pending.request);
  frame.fds = std::move(pending.fds);
  pending.sent = true;
  connection_->outgoing.push(std::move(frame));
}

void Client::end(Pending& pending, Answer answer) {
  if (pending.call) {
    pending.call->finish(std::move(answer));
  }
}

void Client::on_reply(net::Frame frame, wire::Reply reply) {
  const auto it = pending_.find(reply.number);
  if (it == pending_.end()) {
    return;
  }
  Pending pending = std::move(it->second);
  pending_.erase(it);
  Answer answer{std::move(reply.body), std::move(frame.fds), false, epoch_};
  if (reply.status != GOBLIN_OK) {
    answer.body = fail(code_from_status(reply.status), std::move(reply.message));
  }
  if (pending.watched == 0) {
    pending.call->finish(std::move(answer));
    return;
  }
  if (!answer.body) {
    update(pending.watched, fail(std::move(answer.body).error()));
  } else if (auto* status = std::get_if<wire::JobStatus>(&*answer.body)) {
    update(pending.watched, std::move(*status));
  }
}

// ---- jobs ----

void Client::watch(std::uint64_t job) {
  {
    const std::lock_guard lock(mutex_);
    JobView& view = jobs_[job];
    if (view.version != 0 && view.status) {
      return;
    }
    view.version = 0;
  }
  loop_->post([this, job] { send_watch(job); });
}

void Client::send_watch(std::uint64_t job) {
  for (const auto& [number, pending] : pending_) {
    if (pending.watched == job) {
      return;
    }
  }
  Pending pending;
  pending.request.body = wire::GetJob{job, true};
  pending.repeat = true;
  pending.watched = job;
  begin(std::move(pending));
}

void Client::unwatch(std::uint64_t job) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(job);
  if (it != jobs_.end() && !it->second.notify) {
    jobs_.erase(it);
  }
}

std::vector<std::uint64_t> Client::followed() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> all;
  for (const auto& [job, view] : jobs_) {
    if (view.version == 0 || !has_ended(view.status)) {
      all.push_back(job);
    }
  }
  return all;
}

void Client::update(std::uint64_t job, Result<wire::JobStatus> status) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(job);
    if (it == jobs_.end()) {
      return;
    }
    it->second.status = std::move(status);
    it->second.version = ++versions_;
    if (it->second.notify && has_ended(it->second.status)) {
      it->second.notify = false;
      ended_.push_back(job);
    }
  }
  changed_.notify_all();
}

JobView Client::wait_job(std::uint64_t job, std::uint64_t seen, net::Milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] {
    const auto it = jobs_.find(job);
    return closed_ || it == jobs_.end() || it->second.version != seen;
  });
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? JobView{} : it->second;
}

void Client::notify_end(std::uint64_t job) {
  {
    const std::lock_guard lock(mutex_);
    JobView& view = jobs_[job];
    if (view.version != 0 && has_ended(view.status)) {
      ended_.push_back(job);
    } else {
      view.notify = true;
    }
  }
  changed_.notify_all();
}

std::optional<std::uint64_t> Client::next_ended(net::Milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return closed_ || !ended_.empty(); });
  if (ended_.empty()) {
    return std::nullopt;
  }
  const std::uint64_t job = ended_.front();
  ended_.pop_front();
  return job;
}

// ---- bytes over TLS ----

wire::Digest Client::serve(Memory memory) {
  const auto digest = net::sha256({memory.data, memory.size});
  const std::lock_guard lock(mutex_);
  auto [it, fresh] = served_.try_emplace(digest, std::move(memory), 0u);
  ++it->second.second;
  return digest;
}

void Client::unserve(const wire::Digest& digest) {
  Memory released;  // after the lock: its owner may need Python's
  const std::lock_guard lock(mutex_);
  const auto it = served_.find(digest);
  if (it != served_.end() && --it->second.second == 0) {
    released = std::move(it->second.first);
    served_.erase(it);
  }
}

net::Task<Result<std::shared_ptr<net::BlobSource>>> Client::find_blob(wire::Digest digest) {
  const std::lock_guard lock(mutex_);
  const auto it = served_.find(digest);
  if (it == served_.end()) {
    co_return fail(Code::kNotFound, "this client no longer offers the array");
  }
  co_return std::make_shared<MemorySource>(it->second.first);
}

std::shared_ptr<Call> Client::pull(const wire::Digest& digest, Memory memory, std::uint64_t offset,
                                   std::shared_ptr<std::atomic<std::uint64_t>> received) {
  auto call = std::make_shared<Call>();
  auto sink = std::make_shared<MemorySink>(std::move(memory), std::move(received));
  loop_->post([this, digest, offset, sink, call] {
    if (connection_) {
      loop_->spawn(fetch(connection_, digest, offset, sink, call));
    } else {
      call->finish({fail(Code::kUnavailable, "the lab node is away"), {}, true, epoch_});
    }
  });
  return call;
}

net::Task<void> Client::fetch(ConnectionPtr connection, wire::Digest digest, std::uint64_t offset,
                              std::shared_ptr<net::BlobSink> sink, std::shared_ptr<Call> call) {
  auto size = co_await connection->blobs->fetch(digest, offset, sink);
  sink.reset();
  Answer answer{wire::ReplyBody(wire::Ok{}), {}, false, epoch_};
  if (!size) {
    answer.lost = connection->closed;
    answer.body = fail(std::move(size).error());
  }
  call->finish(std::move(answer));
}

}  // namespace goblin::client
