// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/backends.h"
#include "cli/exit_code.h"
#include "cli/services.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/random.h"
#include "core/base/reserve.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ascope {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string home_folder() {
  if (std::string home = environment("HOME"); !home.empty() && home.front() == '/') {
    return home;
  }
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
}

// $NAME/ascope-sandbox, or HOME/fallback/ascope-sandbox; relative values are ignored (XDG base directory
// specification).
std::string xdg_folder(const char* name, const std::string& home, std::string_view fallback) {
  std::string base = environment(name);
  if (base.empty() || base.front() != '/') {
    base = home + "/" + std::string(fallback);
  }
  return absolute_path("ascope-sandbox", base);
}

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> out;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view text = *item;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) {
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return out;
}

bool wants_color(const std::string& choice, int fd) {
  if (choice == "always") {
    return true;
  }
  return choice != "never" && environment("NO_COLOR").empty() && environment("TERM") != "dumb" &&
         ::isatty(fd) != 0;
}

}  // namespace

App::App(const Args& globals) : globals_(globals) {
  out_.quiet = globals_.flag("quiet");
  out_.verbose = globals_.flag("verbose");
  out_.nul_names = globals_.flag("null");
  out_.no_input = globals_.flag("no-input");
  out_.assume_yes = globals_.flag("yes");
  const std::string format = globals_.value("output").value_or("text");
  out_.format = format == "json"    ? OutputFormat::json
                : format == "jsonl" ? OutputFormat::jsonl
                : format == "name"  ? OutputFormat::name
                                    : OutputFormat::text;
  const std::string color = globals_.value("color").value_or("auto");
  out_.color_err = wants_color(color, STDERR_FILENO);
  out_.color_out = wants_color(color, STDOUT_FILENO);
}

App::~App() = default;

Result<void> App::setup() {
  std::string spec = environment("ASCOPE_LOG");
  if (globals_.flags.contains("verbose") && globals_.flags.at("verbose") > 0) {
    spec = (globals_.flags.at("verbose") > 1 ? "debug," : "info,") + spec;
  }
  if (auto set = configure_log(spec, globals_.value("log-format") == "json"); !set) {
    return std::move(set).error().within("ASCOPE_LOG");
  }
  home_ = home_folder();
  state_dir_ = xdg_folder("XDG_STATE_HOME", home_, ".local/state");
  cache_dir_ = xdg_folder("XDG_CACHE_HOME", home_, ".cache");
  config_dir_ = xdg_folder("XDG_CONFIG_HOME", home_, ".config");
  std::array<char, 4096> buffer{};
  if (::getcwd(buffer.data(), buffer.size()) == nullptr) {
    return errno_error("finding the working directory", errno).with_hint("change to a folder that exists");
  }
  cwd_ = buffer.data();
  return ok();
}

Result<ProfileInputs> App::profile_inputs() {
  ProfileInputs inputs;
  inputs.cwd = cwd_;
  inputs.home = home_;
  inputs.config_dir = config_dir_;
  inputs.state_dir = state_dir_;
  inputs.profile_file = globals_.value("profile");
  inputs.environment = whole_environment();
  for (const auto& item : globals_.all("set")) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorKind::usage, "--set '" + item + "' is not KEY=VALUE",
                        "for example --set backend.network=host");
    }
    inputs.set.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  for (const char* name : {"agent", "user", "session", "scope"}) {
    if (auto value = globals_.value(name)) {
      inputs.flags.emplace_back(name, *value);
    }
  }
  return inputs;
}

Result<const Profile*> App::profile() {
  if (!profile_) {
    ASCOPE_TRY_ASSIGN(const ProfileInputs inputs, profile_inputs());
    ASCOPE_TRY_ASSIGN(profile_, load_profile(inputs, backend_kinds()));
    for (const auto& warning : profile_->warnings) {
      out_.warn(warning);
    }
  }
  return &*profile_;
}

Result<SlotKey> App::slot(const Args& args, std::size_t index) {
  if (index < args.positionals.size()) {
    for (const char* name : {"agent", "user", "session", "scope"}) {
      if (args.value(name)) {
        return make_error(
            ErrorKind::usage,
            fmt::format("the slot is given twice: as '{}' and by --{}", args.positionals[index], name),
            "give one of the two");
      }
    }
    return SlotKey::parse(args.positionals[index]);
  }
  ASCOPE_TRY_ASSIGN(const Profile* loaded, profile());
  std::string fallback;
  auto key = SlotKey::resolve(loaded->ids, &fallback);
  if (key && !fallback.empty() && !fallback_said_) {
    fallback_said_ = true;
    out_.status(fallback);
  }
  return key;
}

Result<std::pair<SlotKey, std::string>> App::slot_and_snapshot(const std::string& text) {
  // A slot's written form encodes no '@', so the last one divides: snapshot ids and tags hold none.
  constexpr std::string_view kSnapshotNames = "write an id or a prefix of one, latest, latest~2 or a tag";
  if (text.empty()) {
    return make_error(ErrorKind::usage, "an empty word names no snapshot", std::string(kSnapshotNames));
  }
  const auto at = text.rfind('@');
  if (at == std::string::npos && text.find('/') != std::string::npos) {
    return make_error(ErrorKind::not_found, "'" + text + "' names no snapshot",
                      fmt::format("a slot's are written {}@latest, {}@ID and so on", text, text));
  }
  if (at == std::string::npos) {
    ASCOPE_TRY_ASSIGN(SlotKey key, slot(Args{}));
    return std::pair<SlotKey, std::string>(std::move(key), text);
  }
  if (at + 1 == text.size()) {
    return make_error(ErrorKind::usage, "'" + text + "' names no snapshot", std::string(kSnapshotNames));
  }
  ASCOPE_TRY_ASSIGN(SlotKey key, SlotKey::parse(std::string_view(text).substr(0, at)));
  return std::pair<SlotKey, std::string>(std::move(key), text.substr(at + 1));
}

Result<LockOptions> App::lock_options(const Args& args) {
  LockOptions options;
  if (auto wait = args.value("wait")) {
    ASCOPE_TRY_ASSIGN(options.wait, parse_duration(*wait));
  }
  options.lease_token = args.value("lease").value_or(environment("ASCOPE_LEASE"));
  return options;
}

Result<EngineServices*> App::services() {
  if (!services_) {
    ASCOPE_TRY_ASSIGN(const Profile* loaded, profile());
    ASCOPE_TRY_ASSIGN(services_, services_of(*loaded));
  }
  return services_.get();
}

Result<std::unique_ptr<EngineServices>> App::services_of(const Profile& profile) {
  const BackendKind* kind = find_backend_kind(profile.backend_type);
  if (kind == nullptr) {
    return make_error(ErrorKind::config, "there is no backend '" + profile.backend_type + "'");
  }
  Places places{state_dir_, cache_dir_, xdg_folder("XDG_RUNTIME_DIR", state_dir_, "run")};
  return make_services(profile, *kind, std::move(places), out_, ctx_,
                       globals_.value("progress").value_or("auto"));
}

Result<Receipt> App::begin(std::string_view command, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(EngineServices * engine, services());
  ASCOPE_TRY_ASSIGN(const HostFacts host, engine->host());
  Receipt receipt;
  receipt.id = random_hex(8);
  receipt.command = command;
  receipt.slot = slot.written();
  receipt.time = format_time(ctx_.clock->wall());
  receipt.host = host.name;
  receipt.backend = engine->backend_kind().name;
  return receipt;
}

void App::write_status(Receipt& receipt, const Error* failure) {
  if (failure != nullptr) {
    receipt.outcome = failure->kind == ErrorKind::refused ? "refused" : "failed";
    receipt.error_kind = to_string(failure->kind);
    receipt.error_message = failure->message;
    receipt.exit_code = exit_code(*failure);
  }
  if (auto file = globals_.value("status-file")) {
    status_written_ = true;
    const std::string text = dump_json(receipt_json(receipt), 2) + "\n";
    if (auto written = write_file_atomic(absolute_path(*file, cwd_), text, 0644); !written) {
      out_.warn("--status-file: " + written.error().message);
    }
  }
}

void App::record(const SlotKey& slot, Receipt& receipt, const Error* failure) {
  write_status(receipt, failure);
  const auto store = [&]() -> Result<void> {
    if (receipt.predicted) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(EngineServices * engine, services());
    ASCOPE_TRY_ASSIGN(ReceiptStore * receipts, engine->receipts());
    OpContext ctx;
    ctx.uninterruptible = true;
    return receipts->append(ctx, slot.store_name(), dump_json(receipt_json(receipt)));
  };
  if (auto stored = store(); !stored) {
    out_.warn("the receipt could not be kept: " + stored.error().message);
  }
  if (!receipt.predicted) {
    keep_reserve(state_dir_);
  }
}

void App::write_status_error(const Error& error, int code) {
  const auto file = globals_.value("status-file");
  if (!file || status_written_) {
    return;
  }
  const Json json{{"schema", "ascope.error/1"},
                  {"error",
                   {{"kind", std::string(to_string(error.kind))},
                    {"message", bytes_json(error.message)},
                    {"hint", bytes_json(error.hint)},
                    {"exit_code", code}}}};
  if (auto written = write_file_atomic(absolute_path(*file, cwd_), dump_json(json, 2) + "\n", 0644);
      !written) {
    out_.warn("--status-file: " + written.error().message);
  }
}

Result<int> App::finish(const SlotKey& slot, Receipt& receipt, const Result<void>& result,
                        std::string_view text) {
  record(slot, receipt, result ? nullptr : &result.error());
  for (const auto& warning : receipt.warnings) {
    out_.warn(warning);
  }
  if (!result) {
    return Error(result.error());
  }
  out_.result(receipt_json(receipt), text);
  return receipt.exit_code;
}

}  // namespace ascope
