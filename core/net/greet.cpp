// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>

#include "core/net/channel.hpp"

namespace goblin::net {

std::uint32_t own_release_number() {
  return GOBLIN_VERSION_MAJOR << 16 | GOBLIN_VERSION_MINOR << 8 | GOBLIN_VERSION_PATCH;
}

namespace {

std::string range(std::uint16_t low, std::uint16_t high) {
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

std::string release_name(std::uint32_t release) {
  return std::to_string(release >> 16) + "." + std::to_string((release >> 8) & 0xff) + "." +
         std::to_string(release & 0xff);
}

std::string own_release() {
  return "this side is release " + release_name(own_release_number()) + " (protocol " +
         range(wire::kProtocolMin, wire::kProtocol) + ")";
}

/// What the side that was refused reads.
Error refused_by(const Peer& peer, const wire::Welcome& welcome) {
  const std::string who = std::string(wire::role_name(welcome.role)) + " at " + peer.address;
  switch (welcome.refusal) {
    case wire::Refusal::kProtocolTooOld:
      return {Code::kUnsupported, "the " + who + " is release " + release_name(welcome.release) +
                                      " and needs protocol " + std::to_string(welcome.protocol) +
                                      "; " + own_release() + ": upgrade this side"};
    case wire::Refusal::kProtocolTooNew:
      return {Code::kUnsupported, "the " + who + " is release " + release_name(welcome.release) +
                                      " and speaks protocol " + std::to_string(welcome.protocol) +
                                      " at most; " + own_release() + ": upgrade the " + who};
    case wire::Refusal::kNotAuthorised:
      return {Code::kInvalidArgument, "the " + who +
                                          " does not admit this one's key: ask its operator to "
                                          "add it"};
    case wire::Refusal::kBusy:
      return {Code::kUnavailable, "the " + who + " is busy: try again later"};
    case wire::Refusal::kWrongRole:
      return {Code::kInvalidArgument, "the " + who +
                                          " does not serve this kind of peer: check the address "
                                          "and port"};
    case wire::Refusal::kShuttingDown:
      return {Code::kUnavailable, "the " + who + " is shutting down: try again later"};
    case wire::Refusal::kNone:
      break;
  }
  return {Code::kCorrupt, "the " + who + " refused for reason " +
                              std::to_string(static_cast<int>(welcome.refusal)) +
                              ", which is not known here"};
}

/// What the side that refuses reads.
Error refused_here(const Peer& peer, const wire::Hello& hello, wire::Refusal refusal) {
  const std::string who = std::string(wire::role_name(hello.role)) + " at " + peer.address +
                          (peer.local ? "" : " (key " + peer.pin.hex() + ")");
  const std::string theirs = "the " + who + " is release " + release_name(hello.release) +
                             " (protocol " + range(hello.protocol_min, hello.protocol_max) + "); ";
  switch (refusal) {
    case wire::Refusal::kProtocolTooOld:
      return {Code::kUnsupported, theirs + own_release() + ": upgrade the " + who};
    case wire::Refusal::kProtocolTooNew:
      return {Code::kUnsupported, theirs + own_release() + ": upgrade this side"};
    case wire::Refusal::kNotAuthorised:
      return {Code::kInvalidArgument, "the " + who + " is not authorised"};
    case wire::Refusal::kWrongRole:
      return {Code::kInvalidArgument, "the " + who + " has no business here"};
    case wire::Refusal::kBusy:
    case wire::Refusal::kShuttingDown:
    case wire::Refusal::kNone:
      break;
  }
  return {Code::kUnavailable, "the " + who + " was turned away: busy or shutting down"};
}

Task<Result<wire::Bytes>> receive_greeting(Loop& loop, Channel& channel, wire::FrameType type,
                                           Milliseconds deadline) {
  auto received = co_await within(loop, deadline, channel.receive());
  if (!received) {
    co_return fail(Code::kUnavailable, "no greeting from " + channel.peer().address + " within " +
                                           std::to_string(deadline.count()) + " ms");
  }
  if (!*received) {
    co_return fail(received->error().with_context("greeting of " + channel.peer().address));
  }
  Frame& frame = **received;
  if (frame.type != type) {
    co_return fail(Code::kCorrupt, "frame type " + std::to_string(static_cast<int>(frame.type)) +
                                       " from " + channel.peer().address +
                                       "; the greeting was expected (type " +
                                       std::to_string(static_cast<int>(type)) + ")");
  }
  co_return std::move(frame.message);
}

Task<Result<wire::Welcome>> greet_server_open(Loop& loop, Channel& channel, wire::Role self,
                                              Milliseconds deadline) {
  wire::Hello hello;
  hello.role = self;
  hello.release = own_release_number();
  GOBLIN_CO_TRY_VOID(co_await channel.send(make_frame(wire::FrameType::kHello, hello)));
  GOBLIN_CO_TRY(const wire::Bytes message,
                co_await receive_greeting(loop, channel, wire::FrameType::kWelcome, deadline));
  GOBLIN_CO_TRY(const wire::Welcome welcome, wire::decode_welcome(message));
  if (welcome.refusal != wire::Refusal::kNone) {
    co_return fail(refused_by(channel.peer(), welcome));
  }
  if (welcome.protocol < wire::kProtocolMin || welcome.protocol > wire::kProtocol) {
    co_return fail(Code::kCorrupt, "the peer chose protocol " + std::to_string(welcome.protocol) +
                                       "; it was offered " +
                                       range(wire::kProtocolMin, wire::kProtocol));
  }
  channel.set_state(wire::PeerState::kOpen);
  co_return welcome;
}

}  // namespace

Task<Result<wire::Welcome>> greet_server(Loop& loop, Channel& channel, wire::Role self,
                                         Milliseconds deadline) {
  auto welcome = co_await greet_server_open(loop, channel, self, deadline);
  if (!welcome) {
    channel.close();
  }
  co_return welcome;
}

namespace {

Task<Result<wire::Hello>> greet_client_open(Loop& loop, Channel& channel, wire::Role self,
                                            const Authorise& authorise, Milliseconds deadline) {
  GOBLIN_CO_TRY(const wire::Bytes message,
                co_await receive_greeting(loop, channel, wire::FrameType::kHello, deadline));
  GOBLIN_CO_TRY(const wire::Hello hello, wire::decode_hello(message));
  wire::Welcome welcome;
  welcome.role = self;
  welcome.release = own_release_number();
  welcome.protocol = std::min(hello.protocol_max, wire::kProtocol);
  if (hello.protocol_max < wire::kProtocolMin) {
    welcome.refusal = wire::Refusal::kProtocolTooOld;
  } else if (hello.protocol_min > wire::kProtocol) {
    welcome.refusal = wire::Refusal::kProtocolTooNew;
  } else {
    welcome.refusal = authorise(channel.peer(), hello);
  }
  if (welcome.refusal != wire::Refusal::kNone) {
    welcome.protocol = wire::kProtocol;
  }
  GOBLIN_CO_TRY_VOID(co_await channel.send(make_frame(wire::FrameType::kWelcome, welcome)));
  if (welcome.refusal != wire::Refusal::kNone) {
    co_return fail(refused_here(channel.peer(), hello, welcome.refusal));
  }
  channel.set_state(wire::PeerState::kOpen);
  co_return hello;
}

}  // namespace

Task<Result<wire::Hello>> greet_client(Loop& loop, Channel& channel, wire::Role self,
                                       Authorise authorise, Milliseconds deadline) {
  auto hello = co_await greet_client_open(loop, channel, self, authorise, deadline);
  if (!hello) {
    channel.close();
  }
  co_return hello;
}

}  // namespace goblin::net
