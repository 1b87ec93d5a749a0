// SPDX-License-Identifier: Apache-2.0
// Parts of the guest that run as jobs inside the sandbox, on its files, without asking the image for a
// program. To add one: its function in a file of its own and its row in applets.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/tree/applier.h"

namespace ascope::guest {

// Runs argv[0] ("unpack", "pack", …) on standard input and output; its exit status.
int run_applet(const std::vector<std::string>& argv);

// unpack ROOT: reads the arguments' options (encode_unpack), then a tree stream on stdin
// (core/tree/stream.h), and writes an encoded UnpackReply on stdout. `asks`: the stream comes in PieceSink's
// pieces; once all is staged the guest writes kStaged, and goes on only when it reads kGoOn behind them.
std::vector<std::string> encode_unpack(const std::string& root, const ApplyOptions& options,
                                       bool asks = false);
bool decode_unpack(const std::vector<std::string>& argv, std::string& root, ApplyOptions& options,
                   bool& asks);
constexpr char kStaged = 'S';
constexpr char kGoOn = 'G';

// A stream of bytes with its end marked: u32 length and as many bytes, again and again; then the length 0.
class PieceSink final : public ByteSink {
 public:
  explicit PieceSink(ByteSink& inner) : inner_(inner) {}
  Result<void> write(ByteView data) override;
  Result<void> finish();

 private:
  ByteSink& inner_;
};
class PieceSource final : public ByteSource {
 public:
  explicit PieceSource(ByteSource& inner) : inner_(inner) {}
  Result<std::size_t> read(std::span<char> buffer) override;

 private:
  ByteSource& inner_;
  std::size_t left_ = 0;
  bool ended_ = false;
};

// pack: reads an encoded PackRequest on stdin and writes a tree stream on stdout. Mount points are left out
// with what is below them, but the one that `base` lies on.
struct PackRequest {
  std::string base;                // absolute; entries are relative to it
  std::vector<std::string> roots;  // relative to it; empty: all
  std::vector<std::string> skip;   // relative to it
  std::vector<std::string> exclude;
  bool metadata_only = false;
  bool file_xattrs = true;  // as in WalkOptions
};
std::string encode_pack(const PackRequest& request);
bool decode_pack(std::string_view bytes, PackRequest& request);

// settle ROOT USER: makes the folder ROOT with its parents where it is missing, and USER's own; tells who
// USER is. probe ROOT: whether it is a folder, and empty. flush ROOT: writes what lies there to the disk.
struct PlaceReply {
  std::string problem;  // empty: it worked
  bool exists = false;
  bool empty = false;
  std::uint32_t uid = 0, gid = 0;
  std::string user, home;
};
std::string encode_place(const PlaceReply& reply);
bool decode_place(std::string_view bytes, PlaceReply& reply);

// The parts of run_applet.
Result<void> run_pack(int in, int out);
PlaceReply run_place(const std::vector<std::string>& argv);
// Paths of mount points below `folder` (absolute), relative to it; as /proc shows them.
Result<std::vector<std::string>> mounts_below(const std::string& folder);

// The report, or the error with its kind.
std::string encode_reply(const Result<ApplyReport>& reply);
// `corrupt` if the bytes are no reply; an error inside comes back as itself.
Result<ApplyReport> decode_reply(std::string_view bytes);

}  // namespace ascope::guest
