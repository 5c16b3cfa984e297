// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/blob_streams.hpp"

namespace goblin::net {
namespace {

class Exchange final : public BlobExchange {
 public:
  Exchange(Loop& loop, Channel& channel, Find find)
      : outbox_(std::in_place, loop, channel),
        server_(loop, channel, *outbox_, std::move(find)),
        client_(std::make_shared<BlobClient>(loop, channel, *outbox_)) {}
  ~Exchange() override { shut_down(); }

  Result<void> handle(Frame frame) override {
    if (!outbox_) {
      return fail(Code::kUnavailable, "the connection has ended");
    }
    const wire::ByteView message = frame.message;
    switch (frame.type) {
      case wire::FrameType::kBlobGet: {
        GOBLIN_TRY(const wire::BlobGet get, wire::decode_blob_get(message));
        return server_.on_get(get);
      }
      case wire::FrameType::kBlobCredit: {
        GOBLIN_TRY(const wire::BlobCredit credit, wire::decode_blob_credit(message));
        return server_.on_credit(credit);
      }
      case wire::FrameType::kBlobInfo: {
        GOBLIN_TRY(const wire::BlobInfo info, wire::decode_blob_info(message));
        return client_->on_info(info);
      }
      case wire::FrameType::kBlobData: {
        GOBLIN_TRY(const wire::BlobData data, wire::decode_blob_data(message));
        return client_->on_data(data, std::move(frame.payload));
      }
      case wire::FrameType::kBlobCancel: {
        GOBLIN_TRY(const wire::BlobCancel cancel, wire::decode_blob_cancel(message));
        if (cancel.status == GOBLIN_CANCELLED) {
          server_.on_cancel(cancel.stream);
          return {};
        }
        return client_->on_cancel(cancel);
      }
      default:
        return fail(
            Code::kInvalidArgument,
            "frame type " + std::to_string(static_cast<int>(frame.type)) + " is not about blobs");
    }
  }

  Task<Result<std::uint64_t>> fetch(wire::Digest digest, std::uint64_t offset,
                                    std::shared_ptr<BlobSink> sink, std::uint64_t window) override {
    return BlobClient::fetch(client_, digest, offset, std::move(sink), window);
  }

  void shut_down() override {
    server_.shut_down();
    client_->shut_down();
    outbox_.reset();
  }

 private:
  std::optional<Outbox> outbox_;  ///< null after shut_down()
  BlobServer server_;
  std::shared_ptr<BlobClient> client_;
};

}  // namespace

std::unique_ptr<BlobExchange> BlobExchange::create(Loop& loop, Channel& channel, Find find) {
  return std::make_unique<Exchange>(loop, channel, std::move(find));
}

}  // namespace goblin::net
