// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "client.hpp"

#include <unistd.h>

#include <random>

namespace goblin::client {
namespace {

constexpr net::Milliseconds kPingPause{15'000};
constexpr net::Milliseconds kIdleLimit{50'000};
constexpr net::Milliseconds kFirstPause{50};
constexpr net::Milliseconds kLastPause{2'000};

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

bool Call::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  return !answer_.has_value();
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

void Client::remember(const wire::Submit& submit, std::uint64_t job) {
  constexpr std::size_t kRemembered = 64;
  submitted_.emplace_back(submit.token, job);
  if (submitted_.size() > kRemembered) {
    submitted_.pop_front();
  }
}

void Client::cancel_submission(const Token& token) {
  loop_->post([this, token] {
    for (const auto& [known, job] : submitted_) {
      if (known == token) {
        cancel_unwanted(job);
      }
    }
  });
}

void Client::cancel_unwanted(std::uint64_t job) {
  Pending pending;
  pending.request.body = wire::CancelJob{job};
  pending.repeat = true;
  pending.call = std::make_shared<Call>();
  begin(std::move(pending));
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
    const auto* status = answer.body ? std::get_if<wire::JobStatus>(&*answer.body) : nullptr;
    const std::uint64_t job = status == nullptr ? 0 : status->job;
    if (const auto* submit = std::get_if<wire::Submit>(&pending.request.body);
        submit != nullptr && job != 0) {
      remember(*submit, job);
    }
    pending.call->finish(std::move(answer));
    if (job != 0 && pending.call->abandoned() && !pending.repeat) {
      cancel_unwanted(job);
    }
    return;
  }
  if (!answer.body) {
    update(pending.watched, fail(std::move(answer.body).error()));
  } else if (auto* status = std::get_if<wire::JobStatus>(&*answer.body)) {
    update(pending.watched, std::move(*status));
  }
}

}  // namespace goblin::client
