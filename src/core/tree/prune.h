// SPDX-License-Identifier: Apache-2.0
// Removing from a tree of a hostile owner: iterative, by descriptors, deepest first, whatever the folders'
// modes.
#pragma once

#include <functional>
#include <string>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/tree/notes.h"

namespace ascope {

enum class Verdict {
  keep,        // stays; a folder is looked into
  keep_whole,  // stays with all below it
  remove,  // goes; what is below a folder is decided one by one, and the folder stays while anything in it
           // does
};

struct PruneOptions {
  std::function<Verdict(const std::string& path, const struct stat& info)> decide;
  // Called for each thing removed (or that would be, in a dry run). May be empty.
  std::function<void(const std::string& path)> removed;
  bool dry_run = false;
};

// Goes through all below the folder `root`. Mount points stay and are noted. An owner without rights of root
// gets into folders that lack the bits; those that stay get their modes back.
Result<void> prune_tree(int root, const PruneOptions& options, NoteList& notes);

// Removes `name` in `parent`, whatever it is, with all below it. `busy` if a mount keeps it.
Result<void> remove_whole(int parent, const std::string& name);

}  // namespace ascope
