# venv.sh is sourced: Python tools in .venv of this project, each set in a folder of its own, at the versions of its
# requirements. PYTHON names another Python than python3.
#
#   venv NAME REQUIREMENTS MODULES   installs what is not there yet; says why not and fails where it cannot
#   venv_python NAME ARGUMENTS       is Python with the modules of NAME
#   venv_exec NAME ARGUMENTS         is the same in the place of this shell, so that a signal reaches it
#   venv_can NAME MODULES            tells whether that Python has the modules

venv_system=${PYTHON:-python3}

venv() {
	if ! command -v "$venv_system" >/dev/null; then
		echo "$1: there is no $venv_system on PATH; install Python 3, or name one: make $1 PYTHON=/path/to/python3" >&2
		return 1
	fi
	if cmp -s "$2" ".venv/$1/installed" && venv_can "$1" "$3"; then return; fi
	echo "installing $3 into .venv/$1" >&2
	rm -rf ".venv/$1"
	mkdir -p .venv
	if "$venv_system" -m venv ".venv/$1" 2>/dev/null; then
		".venv/$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2" || return 1
	else # a Python without its venv module, as some distributions ship it
		rm -rf ".venv/$1"
		"$venv_system" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target ".venv/$1/lib" -r "$2" || return 1
	fi
	cp "$2" ".venv/$1/installed" && venv_can "$1" "$3"
}

# With --target there is no bin/python: the same Python then reads the folder.
venv_exec() {
	name=$1
	shift
	if [ -x ".venv/$name/bin/python" ]; then exec ".venv/$name/bin/python" "$@"; fi
	PYTHONPATH=".venv/$name/lib" exec "$venv_system" "$@"
}

venv_python() (venv_exec "$@")

venv_can() { venv_python "$1" -c "import $2" 2>/dev/null; }
