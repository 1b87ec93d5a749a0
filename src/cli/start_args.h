// SPDX-License-Identifier: Apache-2.0
// The options of a start, which start, run and explain share.
#pragma once

#include "cli/app.h"

namespace ascope {

inline constexpr OptionSpec kExpectOption{"expect", '\0', OptionKind::value, "A,B,C,D",
                                          "refuse any other branch than these (7)"};
inline constexpr OptionSpec kNoColdOption{"no-cold", '\0', OptionKind::flag, {}, "refuse a cold start (7)"};
inline constexpr OptionSpec kAllowLossOption{
    "allow-loss", '\0', OptionKind::flag, {}, "go on where work or a snapshot is lost; the receipt names it"};
inline constexpr OptionSpec kExternalOption{"external", '\0', OptionKind::value, "ID",
                                            "use this running sandbox as it is (acquire priority 1)"};
inline constexpr OptionSpec kFromStateOption{
    "from-state", '\0', OptionKind::value, "FILE",
    "resume from this state document, - for stdin (acquire priority 2)"};
inline constexpr OptionSpec kAllowHostRootOption{
    "allow-host-root", '\0', OptionKind::flag, {}, "as root: start even where no id range can be had"};
inline constexpr OptionSpec kDryRunOption{
    "dry-run", '\0', OptionKind::flag, {}, "show what would be done; change nothing"};
inline constexpr PositionalSpec kSlotPositional{
    "SLOT", false, false, "the slot in its written form (default: from options and profile)"};

Result<StartOptions> start_options(App& app, const Args& args);
// The text behind --from-state, "" if not given. `config` if it is no state document.
Result<std::string> from_state_text(App& app, const Args& args);
// A file that the command line names, or stdin for "-".
Result<std::string> read_state_file(const App& app, const std::string& file);

}  // namespace ascope
