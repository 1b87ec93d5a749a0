// SPDX-License-Identifier: Apache-2.0
// Receipts as people read them.
#pragma once

#include <string>

#include "core/receipt.h"

namespace ascope {

// One line: "Branch A (A1): the sandbox is alive …" or what the command did.
std::string receipt_line(const Receipt& receipt);
// The whole: branch, evidence, rejected branches, phases, what was restored, projected, lost.
std::string receipt_text(const Receipt& receipt);

}  // namespace ascope
