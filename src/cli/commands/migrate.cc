// SPDX-License-Identifier: Apache-2.0
// migrate: slots go to other stores, or their snapshots into the other format.
#include "core/engine/migrate.h"

#include <array>

#include <fmt/format.h>

#include "backends/backends.h"
#include "cli/snapshot_common.h"
#include "cli/start_args.h"
#include "core/base/file.h"

namespace ascope {

namespace {

constexpr std::array kOptions{
    OptionSpec{"to-set", '\0', OptionKind::repeated, "KEY=VALUE",
               "profile key of the target: state, snapshots.…"},
    OptionSpec{"to-profile", '\0', OptionKind::value, "FILE",
               "profile of the target, instead of the present one"},
    OptionSpec{"all", '\0', OptionKind::flag, {}, "move every slot of the state store"},
    OptionSpec{"copy", '\0', OptionKind::flag, {}, "leave the slot where it is, too"},
    kAllowLossOption,
    kDryRunOption};
constexpr std::array kPositionals{kSlotPositional};

// The present profile with what --to-set lays over it, or that of --to-profile.
Result<Profile> target_profile(App& app, const Args& args) {
  const auto file = args.value("to-profile");
  const std::vector<std::string> sets = args.all("to-set");
  if (!file && sets.empty()) {
    return make_error(ErrorKind::usage, "nothing says where to move to",
                      "for example --to-set state=json:/srv/states or --to-set snapshots.format=tar");
  }
  ASCOPE_TRY_ASSIGN(ProfileInputs inputs, app.profile_inputs());
  if (file) {
    inputs.profile_file = absolute_path(*file, app.cwd());
    inputs.set.clear();
  }
  for (const std::string& item : sets) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorKind::usage, "--to-set '" + item + "' is not KEY=VALUE",
                        "for example --to-set snapshots.format=chunks");
    }
    inputs.set.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  auto loaded = load_profile(inputs, backend_kinds());
  return loaded ? std::move(loaded) : std::move(loaded).error().within("the target's profile");
}

Result<std::vector<SlotKey>> chosen_slots(App& app, const Args& args) {
  if (!args.flag("all")) {
    ASCOPE_TRY_ASSIGN(SlotKey slot, app.slot(args));
    return std::vector<SlotKey>{std::move(slot)};
  }
  if (!args.positionals.empty()) {
    return make_error(ErrorKind::usage, "--all and a slot are given", "leave one of them out");
  }
  std::vector<SlotKey> out;
  using Slots = std::vector<std::pair<SlotKey, SlotView>>;
  ASCOPE_TRY_ASSIGN(Slots slots, read_all_slots(app));
  for (auto& [slot, view] : slots) {
    if (view.record.kind != RecordClass::tombstone) {
      out.push_back(std::move(slot));
    }
  }
  return out;
}

std::string line(const SlotKey& slot, const Receipt& receipt, const Result<void>& done) {
  return fmt::format("{}: {}\n", printable(slot.written()), done ? receipt.why : done.error().message);
}

// With the receipt kept in the target too, whose newest it is.
void keep_receipt(App& app, EngineServices& to, const SlotKey& slot, Receipt& receipt,
                  const Result<void>& done) {
  app.record(slot, receipt, done ? nullptr : &done.error());
  if (!done || !receipt.changed) {
    return;
  }
  const auto kept = [&]() -> Result<void> {
    ASCOPE_TRY_ASSIGN(EngineServices * from, app.services());
    if (from->profile().state_store == to.profile().state_store) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(ReceiptStore * receipts, to.receipts());
    return receipts->append(app.ctx(), slot.store_name(), dump_json(receipt_json(receipt)));
  }();
  if (!kept) {
    app.out().warn("the receipt could not be kept in the target: " + kept.error().message);
  }
}

Result<int> migrate(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const Profile profile, target_profile(app, args));
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<EngineServices> to, app.services_of(profile));
  ASCOPE_TRY_ASSIGN(EngineServices * from, app.services());
  MigrateOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.copy = args.flag("copy");
  options.allow_loss = args.flag("allow-loss");
  options.dry_run = args.flag("dry-run");
  ASCOPE_TRY_ASSIGN(const std::vector<SlotKey> slots, chosen_slots(app, args));
  std::vector<Json> rows;
  std::vector<std::string> names;
  std::string text;
  bool failed = false;
  for (const SlotKey& slot : slots) {
    ASCOPE_TRY(app.ctx().check("moving slots"));
    ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("migrate", slot));
    receipt.predicted = options.dry_run;
    const Result<void> done = migrate_slot(*from, *to, app.ctx(), slot, options, receipt);
    if (!args.flag("all")) {
      if (done) {
        keep_receipt(app, *to, slot, receipt, done);
        for (const std::string& warning : receipt.warnings) {
          app.out().warn(warning);
        }
        app.out().result(receipt_json(receipt), line(slot, receipt, done));
        return 0;
      }
      return app.finish(slot, receipt, done, "");
    }
    keep_receipt(app, *to, slot, receipt, done);
    rows.push_back(receipt_json(receipt));
    text += line(slot, receipt, done);
    failed = failed || !done;
    if (done && receipt.changed) {
      names.push_back(slot.written());
    }
  }
  app.out().list("ascope.migrate/1", "receipts", rows, names, text);
  return failed ? 3 : 0;
}

}  // namespace

extern const Command kMigrateCommand;
const Command kMigrateCommand{
    "migrate",
    "Setup",
    "move slots between stores and snapshot formats",
    "Moves a slot, or with --all every slot, to the state store, snapshot store and snapshot format that "
    "--to-set and --to-profile name; what they leave open stays as it is. The whole history is written anew "
    "there, with its tags and times and under new ids, then the state; only then goes what is here. Where "
    "the state "
    "store or the backend changes, the sandbox is saved and destroyed first, and the next start is C; else "
    "it "
    "stays as it is. A slot of that name in the target stays as it is (6). Killed at "
    "any moment, the same command goes on.\n\n"
    "Afterwards name the new stores in the profile: the old ones keep a tombstone that says where the slot "
    "went.",
    kOptions,
    kPositionals,
    false,
    "ascope-sandbox migrate user/assistant/alice --to-set snapshots.format=tar\n"
    "ascope-sandbox migrate --all --to-profile shared.yaml --dry-run",
    "3 4 5 6 7 8 9 10 11 13 14 15",
    migrate};

}  // namespace ascope
