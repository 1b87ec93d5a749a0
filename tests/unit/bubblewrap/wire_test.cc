// SPDX-License-Identifier: Apache-2.0
#include "guest/wire.h"

#include <doctest/doctest.h>

#include "guest/applets.h"

using namespace ascope;
using namespace ascope::guest;

TEST_CASE("messages come back as they were sent") {
  GuestConfig config;
  config.idle_ms = 5;
  config.one_user = true;
  config.cwd = std::string("/a\0b", 4);
  config.environment = {{"K", "v=\n"}, {"", ""}};
  std::string bytes;
  encode(bytes, config);
  GuestConfig back;
  REQUIRE(decode(bytes, back));
  CHECK(back.cwd == config.cwd);
  CHECK(back.environment == config.environment);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    GuestConfig part;
    CHECK(!decode(std::string_view(bytes).substr(0, cut), part));
  }

  ExecHead head;
  head.flags = kTty | kHasOut;
  head.timeout_ms = 7;
  head.job = "name";
  ExecBody body;
  body.argv = {"a", "", "\xff"};
  body.environment = {{"X", "Y"}};
  bytes.clear();
  encode(bytes, head, body);
  ExecHead head_back;
  ExecBody body_back;
  std::string_view rest;
  REQUIRE(decode(bytes, head_back, rest));
  REQUIRE(decode(rest, body_back));
  CHECK(head_back.flags == head.flags);
  CHECK(body_back.argv == body.argv);
  CHECK(body_back.environment == body.environment);
  ExecBody none;
  CHECK(!decode(rest.substr(0, rest.size() - 1), none));
}

TEST_CASE("headers are checked") {
  CHECK(parse_header(frame_header(FrameType::status, 9))->length == 9);
  CHECK(!parse_header(frame_header(FrameType::status, kMaxFrame + 1)));
  CHECK(!parse_header(std::string("\0\0\0\0\x7f\0\0\0", 8)));
  CHECK(!parse_header(std::string("\0\0\0\0\1\0\1\0", 8)));
  CHECK(!parse_header("short"));
  SmallFrame frame(FrameType::done);
  const std::string big(5000, 'x');
  frame.append(big.data(), big.size());
  CHECK(frame.full());
}

TEST_CASE("unpack options and reports come back") {
  ApplyOptions options;
  options.skip_paths = {"a", "b\xff"};
  options.rename = {{"x", "y"}};
  options.mode = ApplyMode::fresh;
  std::string root;
  ApplyOptions back;
  bool asks = true;
  REQUIRE(decode_unpack(encode_unpack("/w", options), root, back, asks));
  CHECK(!asks);
  ApplyOptions asking;
  REQUIRE(decode_unpack(encode_unpack("/w", options, true), root, asking, asks));
  CHECK(asks);
  CHECK(root == "/w");
  CHECK(back.skip_paths == options.skip_paths);
  CHECK(back.rename == options.rename);
  CHECK(back.mode == ApplyMode::fresh);
  ApplyReport report;
  report.written = 3;
  report.notes = {{"p", "w"}};
  report.changes = {{'A', "q"}};
  const std::string bytes = encode_reply(report);
  const auto reply = decode_reply(bytes);
  REQUIRE(reply.has_value());
  CHECK(reply->written == 3);
  CHECK(reply->changes == report.changes);
  CHECK(decode_reply(encode_reply(make_error(ErrorKind::denied, "no"))).error().kind == ErrorKind::denied);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    CHECK(!decode_reply(std::string_view(bytes).substr(0, cut)).has_value());
  }
}

TEST_CASE("requests of the file work come back, and cut ones do not") {
  PackRequest request{"/w", {"a", "b\xff"}, {"s"}, {"*.o"}, true};
  const std::string bytes = encode_pack(request);
  PackRequest back;
  REQUIRE(decode_pack(bytes, back));
  CHECK(back.base == "/w");
  CHECK(back.roots == request.roots);
  CHECK(back.skip == request.skip);
  CHECK(back.exclude == request.exclude);
  CHECK(back.metadata_only);
  const PlaceReply place{"", true, false, 5, 6, "u", "/h"};
  PlaceReply place_back;
  const std::string reply = encode_place(place);
  REQUIRE(decode_place(reply, place_back));
  CHECK(place_back.gid == 6);
  CHECK(place_back.home == "/h");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    PackRequest none;
    CHECK(!decode_pack(std::string_view(bytes).substr(0, cut), none));
  }
  for (std::size_t cut = 0; cut < reply.size(); ++cut) {
    PlaceReply none;
    CHECK(!decode_place(std::string_view(reply).substr(0, cut), none));
  }
  PackRequest relative{"w", {}, {}, {}, false};
  CHECK(!decode_pack(encode_pack(relative), back));
}

TEST_CASE("pieces mark the end of what comes in them") {
  StringSink whole;
  PieceSink sink(whole);
  const std::string big(3U << 20U, 'x');
  CHECK(sink.write("ab").has_value());
  CHECK(sink.write("").has_value());
  CHECK(sink.write(big).has_value());
  CHECK(sink.finish().has_value());
  const std::string bytes = whole.take() + "behind";
  ViewSource raw(bytes);
  PieceSource source(raw);
  CHECK(read_all(source, 8U << 20U).value() == "ab" + big);
  char rest[16];
  CHECK(raw.read(rest).value() == 6);
  ViewSource cut(std::string_view(bytes).substr(0, 5));
  PieceSource broken(cut);
  CHECK(read_all(broken, 100).error().kind == ErrorKind::corrupt);
}
