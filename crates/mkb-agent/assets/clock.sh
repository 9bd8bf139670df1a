# Read by an interactive bash: its prompt opens with the minutes used and left of the attempt.
#   bash --rcfile /tests/clock.sh

mkb_clock() {
    local start budget now
    read -r start budget 2>/dev/null <"${MKB_APP:-/app}/.started"
    [ -n "$budget" ] || return
    now=$(date +%s)
    local used=$(((now - start) / 60)) left=$(((budget - (now - start)) / 60))
    [ "$left" -ge 0 ] || left=0
    printf '[%d min used, %d min left] ' "$used" "$left"
}

PS1='$(mkb_clock)\w\$ '
