// SPDX-License-Identifier: Apache-2.0
// The facts of a start in words: what is asked of them in more than one place, and the reasons that a
// decision gives. Private to plan.cc.
#pragma once

#include <string>

#include "core/plan.h"

namespace ascope {

bool is_up(const StartFacts& f);  // alive, or stopped with its disk
bool has_usable_snapshot(const StartFacts& f);
bool tree_is_gone(const StartFacts& f);
bool is_live(const StartFacts& f);
bool is_other_backend(const StartFacts& f);

// One clause each, without a final period.
std::string describe_sandbox(const StartFacts& f);
std::string describe_tree(const StartFacts& f);
std::string describe_snapshot(const StartFacts& f);

// Why `branch` is not what `decision` (its rule filled in) chose.
std::string reject_reason(Branch branch, const StartFacts& f, const StartDecision& decision);

}  // namespace ascope
