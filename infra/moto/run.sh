#!/bin/sh
# run.sh COMMAND...: runs the command with AWS_ENDPOINT_URL at a moto server of its own, and ends that with it. Moto is that
# of the Python on PATH (or of PYTHON), or else it is installed into .venv.
set -eu

here=$(dirname "$0")
. "$here/../venv.sh"

log=$(mktemp)
server=
finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT TERM

if "$venv_system" -c 'import moto.server' 2>/dev/null; then
	"$venv_system" "$here/server.py" -H 127.0.0.1 -p 0 >"$log" 2>&1 &
else
	venv moto "$here/requirements.txt" moto.server
	venv_exec moto "$here/server.py" -H 127.0.0.1 -p 0 >"$log" 2>&1 &
fi
server=$!

tries=0
until endpoint=$(sed -nE 's/.*Running on (http:[^ ]*).*/\1/p' "$log" | head -n 1) && [ -n "$endpoint" ]; do
	tries=$((tries + 1))
	if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
		echo "moto: the server did not start:" >&2
		cat "$log" >&2
		exit 1
	fi
	sleep 0.1
done
echo "moto at $endpoint"
AWS_ENDPOINT_URL=$endpoint "$@"
