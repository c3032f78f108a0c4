#!/bin/sh
# Find a Python that is new enough and let it do the rest (setup.py). Usage: setup.sh [lab|test]
for name in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
    if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
        exec "$name" "${0%/*}/setup.py" "$@"
    fi
done
cat >&2 <<'MESSAGE'
No Python 3.11, 3.12 or 3.13 was found.
  What to do: install one, then run the same command again.
    Debian 12, Ubuntu 24.04 and later   sudo apt install python3 python3-venv
    macOS                               brew install python@3.12
    anything else                       https://www.python.org/downloads/, or conda create -n lab python=3.12
  A Python that is not on the PATH can be named: make lab PYTHON=/path/to/python3.12
MESSAGE
exit 1
