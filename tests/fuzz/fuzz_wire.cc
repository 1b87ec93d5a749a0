// SPDX-License-Identifier: Apache-2.0
// What the guest and its client read of each other: frame headers, payloads, and trees as a stream. The first
// byte chooses.
#include "core/tree/entry_codec.h"
#include "core/tree/stream.h"
#include "fuzz/fuzz.h"
#include "guest/wire.h"

using namespace ascope;  // NOLINT(google-build-using-namespace)

namespace {

void read_header(std::string_view bytes) {
  if (bytes.size() >= guest::kHeaderBytes) {
    const auto header = guest::parse_header(bytes);
    fuzz::expect(!header || header->length <= guest::kMaxFrame);
  }
}

void read_exec(std::string_view payload) {
  guest::ExecHead head;
  guest::ExecBody body;
  std::string_view rest;
  if (!guest::decode(payload, head, rest) || !guest::decode(rest, body)) {
    return;
  }
  std::string again;
  guest::encode(again, head, body);
  guest::ExecHead second;
  guest::ExecBody same;
  fuzz::expect(guest::decode(again, second, rest) && guest::decode(rest, same));
  fuzz::expect(second.job == head.job && same.argv == body.argv && same.environment == body.environment);
}

void read_entry(std::string_view bytes) {
  TreeEntry entry;
  if (decode_entry(bytes, entry)) {
    std::string again;
    encode_entry(entry, again);
    fuzz::expect(again == bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes = fuzz::view(data, size).substr(1);
  switch (data[0] % 5) {
    case 0:
      read_header(bytes);
      break;
    case 1: {
      guest::GuestConfig config;
      static_cast<void>(guest::decode(bytes, config));
      break;
    }
    case 2:
      read_exec(bytes);
      break;
    case 3:
      read_entry(bytes);
      break;
    default: {
      ViewSource source(bytes);
      std::vector<TreeNote> notes;
      fuzz::read_tree(*read_tree_stream(source, &notes));
    }
  }
  return 0;
}
