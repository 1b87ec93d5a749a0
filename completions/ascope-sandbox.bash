# bash completion for ascope-sandbox
# Written from the program's declarations.

_ascope_sandbox_first() {
  echo 'run create start exec snapshot restore undo stop rm cp project ls show history why explain lock gc adopt migrate state doctor profile completion'
}

_ascope_sandbox_second() {
  case $1 in
    snapshot) echo 'ls show cat find diff check export import tag rm stats repair' ;;
    project) echo 'plan apply status push' ;;
    lock) echo 'run acquire release ls wait break' ;;
    state) echo 'export import rm' ;;
    profile) echo 'init validate show trust' ;;
  esac
}

_ascope_sandbox_options() {
  case $1 in
    '') echo '--agent --user --session --scope --profile --set --output --null --quiet --verbose --color --progress --no-input --yes --wait --lease --status-file --log-format --help --version' ;;
    'run') echo '--interactive --tty --env --env-file --cwd --as --timeout --timeout-kill --max-output --expect --no-cold --allow-loss --external --from-state --release --tag --allow-host-root' ;;
    'create') echo '--if-missing --external --from-state --dry-run' ;;
    'start') echo '--expect --no-cold --allow-loss --external --from-state --allow-host-root --dry-run' ;;
    'exec') echo '--interactive --tty --env --env-file --cwd --as --timeout --timeout-kill --max-output --lock' ;;
    'snapshot') echo '--tag --dry-run' ;;
    'snapshot ls') echo '--all' ;;
    'snapshot check') echo '--all --read-data --read-data-subset' ;;
    'snapshot export') echo '--format --part --force' ;;
    'snapshot import') echo '--tag --dry-run' ;;
    'snapshot tag') echo '--delete' ;;
    'snapshot rm') echo '--dry-run' ;;
    'snapshot stats') echo '--all' ;;
    'snapshot repair') echo '--dry-run --no-read-data' ;;
    'restore') echo '--into --to --kill --allow-loss --dry-run' ;;
    'undo') echo '--kill --dry-run' ;;
    'stop') echo '--dry-run' ;;
    'rm') echo '--purge --allow-loss --dry-run' ;;
    'project apply') echo '--dry-run' ;;
    'ls') echo '--all' ;;
    'history') echo '--limit' ;;
    'explain') echo '--expect --no-cold --allow-loss --external --from-state' ;;
    'lock acquire') echo '--ttl' ;;
    'lock break') echo '--dry-run' ;;
    'gc') echo '--dry-run --all --grace --waste' ;;
    'adopt') echo '--snapshot --no-snapshot --dry-run' ;;
    'migrate') echo '--to-set --to-profile --all --copy --allow-loss --dry-run' ;;
    'state export') echo '--raw' ;;
    'state import') echo '--replace --allow-loss --dry-run' ;;
    'state rm') echo '--allow-loss --dry-run' ;;
    'doctor') echo '--image' ;;
    'profile show') echo '--origin' ;;
    'profile trust') echo '--revoke' ;;
  esac
}

# What an option's value is: words, or @slot, @snapshot, @file, @dir, @none; nothing for a flag.
_ascope_sandbox_value() {
  case "$1 $2" in
    "run --env"|"run -e") echo '@none' ;;
    "run --env-file") echo '@file' ;;
    "run --cwd"|"run -w") echo '@file' ;;
    "run --as") echo '@none' ;;
    "run --timeout") echo '@none' ;;
    "run --timeout-kill") echo 'job sandbox' ;;
    "run --max-output") echo '@none' ;;
    "run --expect") echo '@none' ;;
    "run --external") echo '@none' ;;
    "run --from-state") echo '@file' ;;
    "run --release") echo 'keep stop destroy' ;;
    "run --tag") echo '@none' ;;
    "create --external") echo '@none' ;;
    "create --from-state") echo '@file' ;;
    "start --expect") echo '@none' ;;
    "start --external") echo '@none' ;;
    "start --from-state") echo '@file' ;;
    "exec --env"|"exec -e") echo '@none' ;;
    "exec --env-file") echo '@file' ;;
    "exec --cwd"|"exec -w") echo '@file' ;;
    "exec --as") echo '@none' ;;
    "exec --timeout") echo '@none' ;;
    "exec --timeout-kill") echo 'job sandbox' ;;
    "exec --max-output") echo '@none' ;;
    "snapshot --tag") echo '@none' ;;
    "snapshot check --read-data-subset") echo '@none' ;;
    "snapshot export --format") echo 'tar tar.gz tar.zst' ;;
    "snapshot export --part") echo 'workspace roots' ;;
    "snapshot import --tag") echo '@none' ;;
    "restore --into") echo '@slot' ;;
    "restore --to") echo '@dir' ;;
    "history --limit"|"history -n") echo '@none' ;;
    "explain --expect") echo '@none' ;;
    "explain --external") echo '@none' ;;
    "explain --from-state") echo '@file' ;;
    "lock acquire --ttl") echo '@none' ;;
    "gc --grace") echo '@none' ;;
    "gc --waste") echo '@none' ;;
    "adopt --snapshot") echo '@none' ;;
    "migrate --to-set") echo '@none' ;;
    "migrate --to-profile") echo '@file' ;;
    "doctor --image") echo '@none' ;;
  *)
    case "$2" in
    "--agent") echo '@none' ;;
    "--user") echo '@none' ;;
    "--session") echo '@none' ;;
    "--scope") echo 'user session agent global' ;;
    "--profile") echo '@file' ;;
    "--set") echo '@none' ;;
    "--output"|"-o") echo 'text json jsonl name' ;;
    "--color") echo 'auto always never' ;;
    "--progress") echo 'auto json none' ;;
    "--wait") echo '@none' ;;
    "--lease") echo '@none' ;;
    "--status-file") echo '@file' ;;
    "--log-format") echo 'text json' ;;
    esac ;;
  esac
}

_ascope_sandbox_argument() {
  case "$1 $2" in
    'run '0) echo '@slot' ;;
    'create '0) echo '@slot' ;;
    'start '0) echo '@slot' ;;
    'exec '0) echo '@slot' ;;
    'snapshot '0) echo '@slot' ;;
    'snapshot ls '0) echo '@slot' ;;
    'snapshot show '0) echo '@snapshot' ;;
    'snapshot cat '0) echo '@snapshot' ;;
    'snapshot cat '1) echo '@file' ;;
    'snapshot find '0) echo '@snapshot' ;;
    'snapshot diff '0) echo '@snapshot' ;;
    'snapshot diff '1) echo '@snapshot' ;;
    'snapshot check '0) echo '@snapshot' ;;
    'snapshot export '0) echo '@snapshot' ;;
    'snapshot export '1) echo '@file' ;;
    'snapshot import '0) echo '@file' ;;
    'snapshot import '1) echo '@slot' ;;
    'snapshot tag '0) echo '@snapshot' ;;
    'snapshot rm '*) echo '@snapshot' ;;
    'snapshot stats '0) echo '@slot' ;;
    'snapshot repair '0) echo '@slot' ;;
    'restore '0) echo '@snapshot' ;;
    'restore '*) echo '@file' ;;
    'undo '0) echo '@slot' ;;
    'stop '0) echo '@slot' ;;
    'rm '0) echo '@slot' ;;
    'cp '*) echo '@file' ;;
    'cp '1) echo '@file' ;;
    'project plan '0) echo '@slot' ;;
    'project apply '0) echo '@slot' ;;
    'project status '0) echo '@slot' ;;
    'project push '0) echo '@dir' ;;
    'show '0) echo '@slot' ;;
    'history '0) echo '@slot' ;;
    'why '0) echo '@slot' ;;
    'explain '0) echo '@slot' ;;
    'lock run '0) echo '@slot' ;;
    'lock acquire '0) echo '@slot' ;;
    'lock release '0) echo '@slot' ;;
    'lock wait '0) echo '@slot' ;;
    'lock break '0) echo '@slot' ;;
    'gc '0) echo '@slot' ;;
    'adopt '0) echo '@slot' ;;
    'migrate '0) echo '@slot' ;;
    'state export '0) echo '@slot' ;;
    'state import '0) echo '@file' ;;
    'state import '1) echo '@slot' ;;
    'state rm '0) echo '@slot' ;;
    'profile init '0) echo '@file' ;;
    'profile validate '0) echo '@file' ;;
    'profile trust '0) echo '@file' ;;
    'completion '0) echo 'bash zsh fish' ;;
  esac
}

# The words that fit, one a line: the program's own names, or files where none are asked for.
_ascope_sandbox_offer() {
  local kind=$1 current=$2
  case $kind in
    @slot) compgen -W "$(ascope-sandbox ls -o name 2>/dev/null)" -- "$current" ;;
    @snapshot) compgen -W "latest $(ascope-sandbox snapshot ls -o name 2>/dev/null)" -- "$current" ;;
    @file) compgen -f -- "$current" ;;
    @dir) compgen -d -- "$current" ;;
    @none) ;;
    *) compgen -W "$kind" -- "$current" ;;
  esac
}

_ascope_sandbox() {
  local current=${COMP_WORDS[COMP_CWORD]} option='' first='' command='' kind='' words='' word i
  local -i arguments=0
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    # An option and its value, also as "--option = value", which is how the shell splits "--option=value".
    if [[ -n $option ]]; then
      [[ $word == '=' ]] || option=''
      continue
    fi
    case $word in
      --)
        # Behind it stands the user's own command.
        compopt -o default 2>/dev/null
        return ;;
      -*)
        [[ -z $(_ascope_sandbox_value "$command" "$word") ]] || option=$word
        continue ;;
    esac
    if [[ -z $first ]]; then
      first=$word
      command=$word
    elif [[ $command == "$first" && $arguments -eq 0 && " $(_ascope_sandbox_second "$first") " == *" $word "* ]]; then
      command="$first $word"
    else
      arguments+=1
    fi
  done
  if [[ -n $option ]]; then
    kind=$(_ascope_sandbox_value "$command" "$option")
    [[ $current != '=' ]] || current=''
  elif [[ $current == -* ]]; then
    words="$(_ascope_sandbox_options "$command") $(_ascope_sandbox_options '')"
  elif [[ -z $first ]]; then
    words=$(_ascope_sandbox_first)
  else
    [[ $command != "$first" || $arguments -gt 0 ]] || words=$(_ascope_sandbox_second "$first")
    kind=$(_ascope_sandbox_argument "$command" "$arguments")
  fi
  mapfile -t COMPREPLY < <(
    [[ -z $words ]] || compgen -W "$words" -- "$current"
    [[ -z $kind ]] || _ascope_sandbox_offer "$kind" "$current"
  )
  [[ $kind != @file && $kind != @dir ]] || compopt -o filenames 2>/dev/null
}

complete -F _ascope_sandbox ascope-sandbox
