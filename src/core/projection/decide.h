// SPDX-License-Identifier: Apache-2.0
// The three-way decision of a projection: pure, from what the host has, what was last projected and what is
// in the workspace.
#pragma once

#include "core/projection/host_tree.h"
#include "core/projection/projection.h"
#include "core/projection/workspace_view.h"

namespace ascope {

// Fills steps, next, folders and remove of the plan. `keep_agent`: on_conflict agent.
void decide_projection(const HostTree& host, const ProjectionManifest& last, const WorkspaceView& workspace,
                       bool keep_agent, ProjectionPlan& plan);

}  // namespace ascope
