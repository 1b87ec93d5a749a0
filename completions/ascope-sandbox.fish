# fish completion for ascope-sandbox
# Written from the program's declarations.

function __ascope_sandbox_slots
    ascope-sandbox ls -o name 2>/dev/null
end

function __ascope_sandbox_snapshots
    echo latest
    ascope-sandbox snapshot ls -o name 2>/dev/null
end

# The command that was typed: "", "start", "snapshot ls".
function __ascope_sandbox_command
    set -l words (commandline -opc)
    set -l found
    set -e words[1]
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if test "$word" = --
            return 1
        else if contains -- $word --agent --user --session --scope --profile --set --output -o --color --progress --wait --lease --status-file --log-format
            set -e words[1]
        else if string match -q -- '-*' $word
            continue
        else if test (count $found) -eq 0
            set found $word
            contains -- $word snapshot project lock state profile; or break
        else
            contains -- "$found $word" 'snapshot ls' 'snapshot show' 'snapshot cat' 'snapshot find' 'snapshot diff' 'snapshot check' 'snapshot export' 'snapshot import' 'snapshot tag' 'snapshot rm' 'snapshot stats' 'snapshot repair' 'project plan' 'project apply' 'project status' 'project push' 'lock run' 'lock acquire' 'lock release' 'lock ls' 'lock wait' 'lock break' 'state export' 'state import' 'state rm' 'profile init' 'profile validate' 'profile show' 'profile trust'; and set found "$found $word"
            break
        end
    end
    echo $found
end

function __ascope_sandbox_is
    set -l command (__ascope_sandbox_command); and test "$command" = "$argv[1]"
end

# Some command was typed, or none yet, and not the "--" that ends our own words.
function __ascope_sandbox_ours
    __ascope_sandbox_command >/dev/null
end

function __ascope_sandbox_beyond
    not __ascope_sandbox_command >/dev/null
end

complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a run -d 'run a command in the slot\'s sandbox: start, exec, save, release'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a create -d 'make the slot\'s state without starting'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a start -d 'bring the slot\'s sandbox up by the cheapest branch'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a exec -d 'run a command in the slot\'s running sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a snapshot -d 'save the slot\'s workspace now'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a ls -d 'list the saved snapshots of a slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a show -d 'show one snapshot'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a cat -d 'write a file of a snapshot to stdout'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a find -d 'find paths in a snapshot'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a diff -d 'compare two snapshots, or one with the workspace'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a check -d 'check that snapshots are in the store as they were saved'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a export -d 'write a snapshot to a tar file'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a import -d 'save a tar file as the slot\'s newest snapshot'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a tag -d 'give a snapshot a name'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a rm -d 'remove snapshots for ever'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a stats -d 'sum up what snapshots hold and take'
complete -c ascope-sandbox -n '__ascope_sandbox_is snapshot' -a repair -d 'keep what can be read of a slot\'s damaged snapshots'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a restore -d 'put a snapshot back'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a undo -d 'take the last restore back'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a stop -d 'save, then stop the sandbox; its disk stays'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a rm -d 'save, then destroy the sandbox; state and snapshots stay'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a cp -d 'copy files and folders between the host and a sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a project -d ''
complete -c ascope-sandbox -n '__ascope_sandbox_is project' -a plan -d 'show what a projection would change in the workspace'
complete -c ascope-sandbox -n '__ascope_sandbox_is project' -a apply -d 'copy what changed on the host into the running sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is project' -a status -d 'say whether the workspace has what the host projects'
complete -c ascope-sandbox -n '__ascope_sandbox_is project' -a push -d 'fill a distributed projection source'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a ls -d 'list the slots'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a show -d 'show one slot: state, snapshot, sandbox, holder, last receipt'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a history -d 'list a slot\'s receipts, newest first'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a why -d 'explain the slot\'s last start: branch, evidence, rejected branches'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a explain -d 'predict what start would do, with evidence'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a lock -d ''
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a run -d 'run a program of this host while holding a slot\'s lease'
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a acquire -d 'take a slot\'s lease and print its token'
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a release -d 'give back a lease that lock acquire took'
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a ls -d 'list the leases and who holds them'
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a wait -d 'wait until nobody holds a slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is lock' -a break -d 'end somebody else\'s lease'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a gc -d 'collect what no slot needs, with a reason for each thing kept'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a adopt -d 'rebuild a slot\'s lost or damaged state from what is left'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a migrate -d 'move slots between stores and snapshot formats'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a state -d ''
complete -c ascope-sandbox -n '__ascope_sandbox_is state' -a export -d 'print the saved state document of a slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is state' -a import -d 'put a state document into a slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is state' -a rm -d 'give up the saved state of a slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a doctor -d 'try the whole profile in small and say how to mend what fails'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a profile -d ''
complete -c ascope-sandbox -n '__ascope_sandbox_is profile' -a init -d 'write a commented ascope.yaml here'
complete -c ascope-sandbox -n '__ascope_sandbox_is profile' -a validate -d 'check the profile and name all that is wrong'
complete -c ascope-sandbox -n '__ascope_sandbox_is profile' -a show -d 'print the effective profile'
complete -c ascope-sandbox -n '__ascope_sandbox_is profile' -a trust -d 'let a found profile name host paths, commands and stores'
complete -c ascope-sandbox -n '__ascope_sandbox_is ""' -a completion -d 'print a completion script for a shell'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l agent -x -d 'agent id of the slot (ASCOPE_AGENT)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l user -x -d 'user id of the slot (ASCOPE_USER)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l session -x -d 'session id of the slot (ASCOPE_SESSION)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l scope -x -a 'user session agent global' -d 'who shares the sandbox (ASCOPE_SCOPE)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l profile -r -F -d 'profile to use instead of the nearest ascope.yaml'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l set -x -d 'set any profile key for this call'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l output -s o -x -a 'text json jsonl name' -d 'format of the result on stdout'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l null -s 0 -d 'end names with NUL (with -o name)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l quiet -s q -d 'say nothing on stderr but warnings and errors'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l verbose -s v -d 'say what is done on stderr; twice: debug log'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l color -x -a 'auto always never' -d 'colour on stderr (NO_COLOR is honoured)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l progress -x -a 'auto json none' -d 'progress on stderr'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l no-input -d 'never ask; what would ask fails'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l yes -s y -d 'answer yes to what would be asked'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l wait -x -d 'how long to wait for the slot (0: not at all)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l lease -x -d 'work under this lease (ASCOPE_LEASE)'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l status-file -r -F -d 'write the receipt, or the error, to FILE as JSON'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l log-format -x -a 'text json' -d 'format of log lines'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l help -s h -d 'show help'
complete -c ascope-sandbox -n '__ascope_sandbox_ours' -l version -d 'show the version'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l interactive -s i -d 'pass our stdin to the command'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l tty -s t -d 'give the command a terminal of its own'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l env -s e -x -d 'set a variable; NAME alone takes our value (can be repeated)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l env-file -r -F -d 'set variables from NAME=VALUE lines (can be repeated)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l cwd -s w -r -F -d 'working directory inside (default: the workspace)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l as -x -d 'Unix user inside the sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l timeout -x -d 'end the command and all it started after this time (124)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l timeout-kill -x -a 'job sandbox' -d 'what a timeout ends: the command\'s own processes, or all'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l max-output -x -d 'with -o json: keep this much of each stream (default 1MiB)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l expect -x -d 'refuse any other branch than these (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l no-cold -d 'refuse a cold start (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l external -x -d 'use this running sandbox as it is (acquire priority 1)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l from-state -r -F -d 'resume from this state document, - for stdin (acquire priority 2)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l release -x -a 'keep stop destroy' -d 'what happens to the sandbox after saving (default: the profile\'s)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l tag -x -d 'name for the snapshot that the call leaves'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -l allow-host-root -d 'as root: start even where no id range can be had'
complete -c ascope-sandbox -n '__ascope_sandbox_is "run"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "create"' -l if-missing -d 'leave an existing slot as it is (0)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "create"' -l external -x -d 'use this running sandbox as it is (acquire priority 1)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "create"' -l from-state -r -F -d 'resume from this state document, - for stdin (acquire priority 2)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "create"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "create"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l expect -x -d 'refuse any other branch than these (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l no-cold -d 'refuse a cold start (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l external -x -d 'use this running sandbox as it is (acquire priority 1)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l from-state -r -F -d 'resume from this state document, - for stdin (acquire priority 2)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l allow-host-root -d 'as root: start even where no id range can be had'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "start"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l interactive -s i -d 'pass our stdin to the command'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l tty -s t -d 'give the command a terminal of its own'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l env -s e -x -d 'set a variable; NAME alone takes our value (can be repeated)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l env-file -r -F -d 'set variables from NAME=VALUE lines (can be repeated)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l cwd -s w -r -F -d 'working directory inside (default: the workspace)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l as -x -d 'Unix user inside the sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l timeout -x -d 'end the command and all it started after this time (124)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l timeout-kill -x -a 'job sandbox' -d 'what a timeout ends: the command\'s own processes, or all'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l max-output -x -d 'with -o json: keep this much of each stream (default 1MiB)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -l lock -d 'wait for the slot\'s turn instead of going in beside others'
complete -c ascope-sandbox -n '__ascope_sandbox_is "exec"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot"' -l tag -x -d 'name for the snapshot'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot ls"' -l all -d 'also objects in the store that no slot\'s history names'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot ls"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot show"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot cat"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot cat"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot find"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot diff"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot diff"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot check"' -l all -d 'check the snapshots of every slot'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot check"' -l read-data -d 'read every byte and compare its SHA-256'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot check"' -l read-data-subset -x -d 'read that part of the packs, other ones each time, such as 5%'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot check"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot export"' -l format -x -a 'tar tar.gz tar.zst' -d 'format, where FILE\'s name does not say it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot export"' -l part -x -a 'workspace roots' -d 'the workspace root (default), or what else is saved, relative to /'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot export"' -l force -d 'replace FILE if it exists'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot export"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot export"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot import"' -l tag -x -d 'tag the new snapshot'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot import"' -l dry-run -d 'check the archive and change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot import"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot import"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot tag"' -l delete -s d -d 'take the tag away'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot tag"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot rm"' -l dry-run -d 'show what would be removed'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot rm"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot stats"' -l all -d 'the whole store, slot by slot, whoever saved there'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot stats"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot repair"' -l dry-run -d 'tell what is lost and change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot repair"' -l no-read-data -d 'believe content where the indexes have it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "snapshot repair"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -l into -x -a '(__ascope_sandbox_slots)' -d 'restore into another slot (a fork)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -l to -x -a '(__fish_complete_directories)' -d 'unpack into this empty host folder; no slot is changed'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -l kill -d 'end commands that run in the sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -x -a '(__ascope_sandbox_snapshots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "restore"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "undo"' -l kill -d 'end commands that run in the sandbox'
complete -c ascope-sandbox -n '__ascope_sandbox_is "undo"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "undo"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "stop"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "stop"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "rm"' -l purge -d 'remove the state and every snapshot of the slot too'
complete -c ascope-sandbox -n '__ascope_sandbox_is "rm"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "rm"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "rm"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "cp"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "cp"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "project plan"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "project apply"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "project apply"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "project status"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "project push"' -x -a '(__fish_complete_directories)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "ls"' -l all -s a -d 'list removed slots too'
complete -c ascope-sandbox -n '__ascope_sandbox_is "show"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "history"' -l limit -s n -x -d 'show at most N receipts (default 20)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "history"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "why"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -l expect -x -d 'refuse any other branch than these (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -l no-cold -d 'refuse a cold start (7)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -l external -x -d 'use this running sandbox as it is (acquire priority 1)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -l from-state -r -F -d 'resume from this state document, - for stdin (acquire priority 2)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "explain"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock run"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock acquire"' -l ttl -x -d 'how long it lasts unless renewed (default 30m)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock acquire"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock release"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock wait"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock break"' -l dry-run -d 'show whose lease would be broken'
complete -c ascope-sandbox -n '__ascope_sandbox_is "lock break"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "gc"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "gc"' -l all -s a -d 'list what is kept too'
complete -c ascope-sandbox -n '__ascope_sandbox_is "gc"' -l grace -x -d 'keep packs that are younger, for saves at work (default 24h)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "gc"' -l waste -x -d 'repack packs of which more is not needed (default 30%)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "gc"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "adopt"' -l snapshot -x -d 'object in the snapshot store that becomes the head'
complete -c ascope-sandbox -n '__ascope_sandbox_is "adopt"' -l no-snapshot -d 'take the sandbox alone; no head'
complete -c ascope-sandbox -n '__ascope_sandbox_is "adopt"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "adopt"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l to-set -x -d 'profile key of the target: state, snapshots.…'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l to-profile -r -F -d 'profile of the target, instead of the present one'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l all -d 'move every slot of the state store'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l copy -d 'leave the slot where it is, too'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "migrate"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state export"' -l raw -d 'print the whole record, byte for byte, whatever it holds'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state export"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state import"' -l replace -d 'put it in the place of a state that is there'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state import"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state import"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state import"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "state import"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state rm"' -l allow-loss -d 'go on where work or a snapshot is lost; the receipt names it'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state rm"' -l dry-run -d 'show what would be done; change nothing'
complete -c ascope-sandbox -n '__ascope_sandbox_is "state rm"' -x -a '(__ascope_sandbox_slots)'
complete -c ascope-sandbox -n '__ascope_sandbox_is "doctor"' -l image -x -d 'check an image against the image contract'
complete -c ascope-sandbox -n '__ascope_sandbox_is "profile init"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "profile validate"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "profile show"' -l origin -d 'say where each value comes from'
complete -c ascope-sandbox -n '__ascope_sandbox_is "profile trust"' -l revoke -d 'trust the file no longer'
complete -c ascope-sandbox -n '__ascope_sandbox_is "profile trust"' -F
complete -c ascope-sandbox -n '__ascope_sandbox_is "completion"' -x -a 'bash zsh fish'
complete -c ascope-sandbox -n __ascope_sandbox_beyond -F

complete -c ascope-sandbox -f
