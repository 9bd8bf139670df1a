#!/bin/bash
# Submits a snapshot of kernel.py for evaluation and waits for the report.
#   bash /tests/test.sh
# Exit code: 0 the report was printed, 1 nothing was submitted, 2 the report was not waited for.

app="${MKB_APP:-/app}"
look="${MKB_LOOK_SEC:-2}"
kernel="$app/kernel.py"
mailbox="$app/.submissions"

refuse() {
    echo "not submitted: $1" >&2
    exit 1
}

[ -f "$kernel" ] || refuse "there is no $kernel"
[ -s "$kernel" ] || refuse "$kernel is empty"
"${MKB_PYTHON:-python3}" -I - "$kernel" <<'PYTHON' || refuse "$kernel is not valid Python"
import ast
import sys

with open(sys.argv[1], "rb") as file:
    source = file.read()
try:
    ast.parse(source, sys.argv[1])
except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1)
PYTHON

id="$(date +%s%N)"
mkdir -p "$mailbox" && cp "$kernel" "$mailbox/$id.tmp" \
    && mv "$mailbox/$id.tmp" "$mailbox/$id.request" || refuse "could not write to $mailbox"

result="$mailbox/$id.result"
trap 'echo "stopped waiting; the report will be in $result" >&2; exit 2' INT TERM HUP

SECONDS=0
said=0
while [ ! -f "$result" ]; do
    if [ "$SECONDS" -ge 1200 ]; then
        echo "no report after 1200 s; it will be in $result" >&2
        exit 2
    fi
    if [ $((SECONDS - said)) -ge 30 ]; then
        said=$SECONDS
        echo "waiting for the report (${SECONDS} s)"
    fi
    # In the background, so that an interruption is not held up by the sleep.
    sleep "$look" &
    wait $!
done
cat "$result"
