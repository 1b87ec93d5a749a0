// SPDX-License-Identifier: Apache-2.0
#include "cli/start_args.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/engine/state_ops.h"

namespace ascope {

namespace {

constexpr std::size_t kMaxStateBytes = 4U << 20U;

Result<std::vector<Branch>> parse_branches(std::string_view text) {
  std::vector<Branch> out;
  while (true) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    if (item.size() != 1 || item[0] < 'A' || item[0] > 'D') {
      return make_error(ErrorKind::usage, "--expect '" + std::string(item) + "' is not a branch",
                        "write one or more of A, B, C, D, such as --expect A,B");
    }
    out.push_back(static_cast<Branch>(item[0] - 'A'));
    if (comma == text.size()) {
      return out;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::string> from_state_text(App& app, const Args& args) {
  const auto file = args.value("from-state");
  if (!file) {
    return std::string();
  }
  auto text = read_state_file(app, *file);
  const auto checked = text ? check_state_text(*text) : ok();
  if (!text || !checked) {
    return Error(text ? checked.error() : text.error()).within("--from-state " + *file);
  }
  return text;
}

Result<std::string> read_state_file(const App& app, const std::string& file) {
  FdSource source{UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3))};
  auto text = file == "-" ? read_all(source, kMaxStateBytes)
                          : read_file(absolute_path(file, app.cwd()), kMaxStateBytes);
  if (text) {
    return text;
  }
  Error error = std::move(text).error();
  if (error.kind == ErrorKind::corrupt) {  // too large for a state
    error.kind = ErrorKind::config;
  }
  return std::move(error).with_hint("check the path; - stands for stdin");
}

Result<StartOptions> start_options(App& app, const Args& args) {
  StartOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  if (auto expect = args.value("expect")) {
    ASCOPE_TRY_ASSIGN(options.expect, parse_branches(*expect));
  }
  options.no_cold = args.flag("no-cold");
  options.allow_loss = args.flag("allow-loss");
  options.external = args.value("external").value_or("");
  ASCOPE_TRY_ASSIGN(options.from_state, from_state_text(app, args));
  if (!options.external.empty() && !options.from_state.empty()) {
    return make_error(ErrorKind::usage, "--external and --from-state exclude one another",
                      "give one of the two");
  }
  return options;
}

}  // namespace ascope
