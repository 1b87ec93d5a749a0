// SPDX-License-Identifier: Apache-2.0
// json:DIR — AgentScope's JSON file store; the services are in json_*.cc.
#include "store/json_layout.h"

namespace ascope {

extern const StoreKind kJsonStore;
const StoreKind kJsonStore{
    .scheme = "json",
    .summary = "a folder of JSON files, shared with AgentScope's JsonFileAgentStateStore",
    .shared = false,
    .open_state = &open_json_state,
    .open_receipts = &open_json_receipts};

}  // namespace ascope
