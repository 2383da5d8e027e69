#!/bin/sh
# run.sh TEMPLATE: cfn-lint, then the SAM transform with the assertions of check.py.
# The tools go into .venv of this project at the versions of requirements.txt; where they cannot be installed,
# the ones that the Python on PATH already has are used.
set -eu

here=$(dirname "$0")
template=$1
python=${PYTHON:-python3}
stamp=.venv/samcheck.installed

can_check() { "$@" -c 'import cfnlint, samtranslator' 2>/dev/null; }

install() {
	rm -rf .venv
	echo "installing cfn-lint and aws-sam-translator into .venv" >&2
	if "$python" -m venv .venv 2>/dev/null; then
		.venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	else # a Python without its venv module, as some distributions ship it
		rm -rf .venv
		"$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .venv/lib -r "$here/requirements.txt"
	fi && cp "$here/requirements.txt" "$stamp"
}

# With --target there is no .venv/bin: the same Python then reads .venv/lib.
from_venv() {
	if [ -x .venv/bin/python ]; then .venv/bin/python "$@"; else PYTHONPATH=.venv/lib "$python" "$@"; fi
}

if ! command -v "$python" >/dev/null; then
	echo "sam-check: there is no $python on PATH; install Python 3, or name one: make sam-check PYTHON=/path/to/python3" >&2
	exit 1
fi

if cmp -s "$here/requirements.txt" "$stamp" && can_check from_venv; then
	run=from_venv
elif install && can_check from_venv; then
	run=from_venv
elif can_check "$python"; then
	echo "sam-check: .venv could not be filled; using what $python has installed" >&2
	run=$python
else
	echo "sam-check: cfn-lint and aws-sam-translator are neither installed nor installable with '$python -m pip' (see above)" >&2
	exit 1
fi

$run -c 'from cfnlint.runner import main; main()' "$template"
$run "$here/check.py" "$template"
