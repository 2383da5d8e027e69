#!/bin/sh
# run.sh TEMPLATE: cfn-lint, then the SAM transform with the assertions of check.py.
# Where the tools cannot be installed, the ones that the Python on PATH already has are used.
set -eu

here=$(dirname "$0")
template=$1
. "$here/../venv.sh"

python="venv_python sam-check"
if ! venv sam-check "$here/requirements.txt" "cfnlint, samtranslator"; then
	if ! "$venv_system" -c 'import cfnlint, samtranslator' 2>/dev/null; then
		echo "sam-check: cfn-lint and aws-sam-translator are neither installed nor installable with '$venv_system -m pip' (see above)" >&2
		exit 1
	fi
	echo "sam-check: .venv could not be filled; using what $venv_system has installed" >&2
	python=$venv_system
fi

$python -c 'from cfnlint.runner import main; main()' "$template"
$python "$here/check.py" "$template"
