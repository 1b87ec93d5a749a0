// SPDX-License-Identifier: Apache-2.0
// The processes of the sandbox as /proc shows them, and what is done to many of them at once. Nothing here
// allocates: it must work when the sandbox has neither memory nor processes left.
#pragma once

#include <cstdint>
#include <sys/types.h>

namespace ascope::guest {

// Milliseconds on the monotonic clock.
std::uint64_t now_ms();
void sleep_ms(unsigned milliseconds);

// Stops every process but the caller (the first process of its namespace), remembering which were stopped
// already. False if some could not be stopped within five seconds; then those that were are let go again.
bool freeze_others();
// Lets those go that freeze_others() stopped.
void thaw_others();

// Sends `signal` to every living descendant of `root`; the number of processes it went to.
std::uint64_t signal_descendants(pid_t root, int signal);
// Kills `root` with every descendant it has now. For a `root` that does not do so itself: code inside of its
// own user may have stopped it.
void kill_tree(pid_t root);
// Kills every descendant of the caller until none is left, however fast they fork, and reaps them. Returns
// how many were found alive. `main_status` gets the wait status of `main_pid` if that is among them.
std::uint64_t kill_descendants(pid_t main_pid, int* main_status);

}  // namespace ascope::guest
