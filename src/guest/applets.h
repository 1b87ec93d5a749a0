// SPDX-License-Identifier: Apache-2.0
// Parts of the guest that run as jobs inside the sandbox, on its files, without asking the image for a
// program. To add one: its function in a file of its own and its row in applets.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tree/applier.h"

namespace ascope::guest {

// Runs argv[0] ("unpack") on standard input and output; its exit status.
int run_applet(const std::vector<std::string>& argv);

// unpack ROOT: reads the arguments' options (encode_unpack), then a tree stream on stdin
// (core/tree/stream.h), and writes an encoded UnpackReply on stdout.
std::vector<std::string> encode_unpack(const std::string& root, const ApplyOptions& options);
bool decode_unpack(const std::vector<std::string>& argv, std::string& root, ApplyOptions& options);

// The report, or the error with its kind.
std::string encode_reply(const Result<ApplyReport>& reply);
// `corrupt` if the bytes are no reply; an error inside comes back as itself.
Result<ApplyReport> decode_reply(std::string_view bytes);

}  // namespace ascope::guest
