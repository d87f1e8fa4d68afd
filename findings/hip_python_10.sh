#!/usr/bin/env bash
# hip-python 10, "backward-compatibility metapackage: existing `from hip import hip` code keeps working" (its README).
#
# Guessed: code written for hip-python 7 runs, since the names are the same.
# Seen:    `from hip import hip` works, `import hip.hip` and `hip.chip` (whose DLL names the runtime to load) do not exist,
#          and hipGetDeviceProperties(prop, deviceId) is hipGetDeviceProperties(deviceId), which returns the properties.
# Needs python3 with pip and a package index, and no GPU. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
for row in 7.2.2.562.43:old 10.0.0.0.1.2:new; do
  release=${row%:*}
  packages=("hip-python==$release")
  [ "${row#*:}" = old ] || packages+=("rocm-bindings-hip==$release" "rocm-bindings-core==$release")
  "$folder/env/bin/pip" install -q "${packages[@]}"
  "$folder/env/bin/python" - "$row" <<'PY'
import importlib.util
import inspect
import sys

release, stated = sys.argv[1].split(":")
from hip import hip

found = [
    importlib.util.find_spec("hip.hip") is not None,
    importlib.util.find_spec("hip.chip") is not None,
    [*inspect.signature(hip.hipGetDeviceProperties).parameters],
]
print(f"hip-python {release}: hip.hip {found[0]}, hip.chip {found[1]}, hipGetDeviceProperties{tuple(found[2])}")
sys.exit(found != {"old": [True, True, ["prop", "deviceId"]], "new": [False, False, ["deviceId"]]}[stated])
PY
done
