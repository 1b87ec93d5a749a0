// SPDX-License-Identifier: Apache-2.0
#include "cli/exec_io.h"

#include <algorithm>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/file.h"

namespace ascope {

namespace {

Result<void> set_variable(std::map<std::string, std::string>& out, const std::string& name,
                          const std::string& value) {
  if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
    return make_error(ErrorKind::usage, fmt::format("'{}' is not a name of a variable", name),
                      "write NAME=VALUE, or NAME alone for its value here");
  }
  if (value.find('\0') != std::string::npos) {
    return make_error(ErrorKind::usage, fmt::format("the value of '{}' holds a NUL byte", name),
                      "no program can be given one in a variable");
  }
  out[name] = value;
  return ok();
}

Result<void> read_env_file(std::map<std::string, std::string>& out, const std::string& path) {
  auto read = read_file(path, 1U << 20U);
  if (!read) {
    return std::move(read).error().with_hint("check the path that --env-file gives");
  }
  const std::string text = std::move(*read);
  std::string_view rest = text;
  int line_number = 0;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return make_error(ErrorKind::config, fmt::format("{}:{}: not a NAME=VALUE line", path, line_number),
                        "one variable a line, the value as it is; lines that begin with # are left out");
    }
    if (auto set =
            set_variable(out, std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
        !set) {
      return std::move(set).error().within(fmt::format("{}:{}", path, line_number));
    }
  }
  return ok();
}

std::string shortened(const std::vector<std::string>& argv) {
  std::string out;
  for (const auto& word : argv) {
    out += (out.empty() ? "" : " ") + word;
    if (out.size() > 80) {
      out.resize(80);
      break;
    }
  }
  return printable(out);
}

}  // namespace

Result<ExecRequest> exec_request(App& app, const Args& args) {
  ExecRequest request;
  request.argv = args.argv;
  for (const auto& file : args.all("env-file")) {
    ASCOPE_TRY(read_env_file(request.environment, absolute_path(file, app.cwd())));
  }
  for (const auto& item : args.all("env")) {
    const auto equals = item.find('=');
    if (equals != std::string::npos) {
      if (auto set = set_variable(request.environment, item.substr(0, equals), item.substr(equals + 1));
          !set) {
        return std::move(set).error().within("-e " + item);
      }
      continue;
    }
    const char* value = std::getenv(item.c_str());
    if (value == nullptr) {
      return make_error(ErrorKind::usage, fmt::format("-e {}: the variable is not set here", item),
                        fmt::format("export it, or write -e {}=VALUE", item));
    }
    ASCOPE_TRY(set_variable(request.environment, item, value));
  }
  request.cwd = args.value("cwd").value_or("");
  request.user = args.value("as").value_or("");
  request.tty = args.flag("tty");
  if (auto timeout = args.value("timeout")) {
    ASCOPE_TRY_ASSIGN(request.timeout, parse_duration(*timeout));
  }
  request.kill_sandbox_on_timeout = args.value("timeout-kill") == "sandbox";
  request.job = shortened(request.argv);
  return request;
}

std::optional<Error> unfinished(const SlotKey& slot, const ExecOutcome& outcome) {
  if (outcome.end != ExecEnd::sandbox_ended) {
    return std::nullopt;
  }
  return make_error(
      ErrorKind::backend_unavailable,
      fmt::format("{}: the sandbox ended, or the guest's process of the command was killed inside, before "
                  "the command did",
                  slot.written()),
      fmt::format("'ascope-sandbox show {}' tells whether it runs; 'start' brings it up", slot.written()));
}

// Keeps the first bytes of a stream and counts the rest.
class ExecIo::Capture final : public ByteSink {
 public:
  explicit Capture(std::size_t limit) : limit_(limit) {}
  Result<void> write(ByteView data) override {
    const std::size_t room = limit_ - bytes.size();
    bytes += data.substr(0, room);
    truncated = truncated || data.size() > room;
    return ok();
  }
  std::string bytes;
  bool truncated = false;

 private:
  std::size_t limit_;
};

Result<std::unique_ptr<ExecIo>> ExecIo::make(App& app, const Args& args, ExecRequest& request) {
  std::unique_ptr<ExecIo> io(new ExecIo());
  io->program_ = request.argv.empty() ? "" : request.argv.front();
  ASCOPE_TRY_ASSIGN(io->signals_, SignalForwarder::make());
  io->streams_.events = io->signals_->read_fd();
  io->streams_.in = args.flag("interactive") ? STDIN_FILENO : -1;
  const OutputFormat format = app.out().format;
  if (format == OutputFormat::json || format == OutputFormat::jsonl) {
    std::size_t limit = 1U << 20U;
    if (auto text = args.value("max-output")) {
      ASCOPE_TRY_ASSIGN(limit, parse_size(*text, true));
    }
    auto out = std::make_unique<Capture>(limit);
    auto err = std::make_unique<Capture>(limit);
    io->captured_out_ = out.get();
    io->captured_err_ = err.get();
    io->out_ = std::move(out);
    io->err_ = std::move(err);
  } else {
    io->out_ = std::make_unique<FdSink>(STDOUT_FILENO);
    io->err_ = std::make_unique<FdSink>(STDERR_FILENO);
  }
  io->streams_.out = io->out_.get();
  io->streams_.err = io->err_.get();
  if (request.tty) {
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
      request.rows = size.ws_row;
      request.columns = size.ws_col;
    }
    termios now{};
    if (args.flag("interactive") && ::tcgetattr(STDIN_FILENO, &now) == 0) {
      io->saved_terminal_ = now;
    }
    if (const char* term = std::getenv("TERM"); term != nullptr) {
      request.environment.emplace("TERM", term);
    }
  }
  return io;
}

ExecIo::~ExecIo() {
  set_running(false);
}

void ExecIo::set_running(bool running) {
  if (signals_) {
    signals_->set_active(running);
  }
  if (saved_terminal_ && running != raw_) {
    termios wanted = *saved_terminal_;
    if (running) {
      ::cfmakeraw(&wanted);
    }
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &wanted);
    raw_ = running;
  }
}

Result<int> ExecIo::answer(App& app, const ExecOutcome& outcome, const Receipt& receipt,
                           std::optional<Error> failure) {
  if (captured_out_ != nullptr) {
    app.out().result(Json{{"schema", "ascope.exec/1"},
                          {"exit_code", outcome.exit_code()},
                          {"stdout", bytes_json(captured_out_->bytes)},
                          {"stderr", bytes_json(captured_err_->bytes)},
                          {"truncated", captured_out_->truncated || captured_err_->truncated},
                          {"stdout_truncated", captured_out_->truncated},
                          {"stderr_truncated", captured_err_->truncated},
                          {"receipt", receipt_json(receipt)}},
                     "");
  }
  const bool missing = outcome.end == ExecEnd::not_found;
  if (!failure && captured_out_ == nullptr && (missing || outcome.end == ExecEnd::not_executable)) {
    app.out().error(
        make_error(
            missing ? ErrorKind::not_found : ErrorKind::denied,
            fmt::format("'{}' {} in the sandbox", program_, missing ? "was not found" : "cannot be executed"),
            missing ? "give its path, or look for it: sh -c 'command -v NAME'"
                    : "look at it: ls -l; a script needs the path of its interpreter in its first line"),
        outcome.exit_code());
  }
  return failure ? Result<int>(std::move(*failure)) : outcome.exit_code();
}

}  // namespace ascope
